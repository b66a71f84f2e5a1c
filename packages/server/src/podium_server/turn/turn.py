"""Runs a request, and yields the pieces of its answer."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from time import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio.to_thread

from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.hosts import ChatAnswer, ChatCall, ContinuationStore, answered
from podium.journal import Journal, MemoryJournal
from podium.run import RunOptions
from podium.types import Part, Problem, Result, RunEnded, Sampling, estimate_usage
from podium.usage import Usage
from podium_server.keys import Access, Admission, Ask, Caller
from podium_server.models import Catalogue, ModelUnknown, ServedModel
from podium_server.record import Record, current_record
from podium_server.settings import Effort
from podium_server.turn.asked import Asked
from podium_server.turn.idempotency import NamedRun, Recorded, Running
from podium_server.turn.pieces import Piece, ProgressPiece, TextPiece
from podium_server.turn.progress import Progress
from podium_server.turn.run_turn import RunTurn
from podium_server.turn.tool_results import check_tool_results
from podium_server.turn.usage import answer_usage
from podium_server.turn.verbatim import verbatim
from podium_server.turn.without_urls import without_urls

if TYPE_CHECKING:
    from podium_server.turn.answer_form import AnswerForm

_MOST_STORES = 1000
_MOST_CONTINUATIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What is known about a turn before its run."""

    asked: Asked
    model: ServedModel
    effort: Effort | None
    run_id: str
    admission: Admission
    call: ChatCall
    record: Record
    """What the log and the metrics tell about the request."""
    recorded: Recorded | None
    """The recorded run of an earlier request with the same idempotency key."""


class Turn:
    """One admitted request. `pieces` runs it; afterwards `answer` is set.

    Args:
        facts: what is known about the turn.
    """

    def __init__(self, facts: _Facts) -> None:
        self._facts = facts
        self.run_id = facts.run_id
        self.model = facts.model
        self.created = int(time())
        """When the turn began, in seconds of Unix time."""
        self._answer: ChatAnswer | None = None
        self._misfit: Problem | None = None
        """Why the answer does not have the requested form."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response, in lower case."""
        headers = {"x-podium-run-id": self.run_id, "x-podium-model": self.model.versioned_id}
        if self._facts.effort is not None:
            headers["x-podium-effort"] = self._facts.effort
        if self._facts.recorded is not None:
            headers["idempotent-replayed"] = "true"
        if self._answer is not None:
            headers["x-podium-status"] = str(self.summary["status"])
            headers["x-podium-usage"] = "estimated" if self.usage.estimated else "measured"
        return {**headers, **self._facts.admission.headers}

    @property
    def answer(self) -> ChatAnswer:
        """The answer, after `pieces` has ended."""
        assert self._answer is not None
        return self._answer

    @property
    def tool_calls(self) -> Sequence[Part]:
        """The tool calls of the answer; only the first, if the request allows no parallel calls."""
        calls = self.answer.tool_calls
        return calls if self._facts.asked.is_parallel else calls[:1]

    @property
    def usage(self) -> Usage:
        """The tokens of the run, divided into those of the answer and those of the orchestration."""
        return answer_usage(self.answer.result)

    @property
    def summary(self) -> dict[str, Any]:
        """The id and the status of the run, as plain JSON.

        It has the problem of an incomplete answer, and a note if calls are charged without a reported usage.
        """
        problem = self.problem
        status = "ok" if problem is None and self.answer.result.status == "ok" else "partial"
        told = None if problem is None else {"code": problem.code, "message": problem.message}
        note = self.answer.result.usage_note or None
        return {"run_id": self.run_id, "status": status, "problem": told, "usage_note": note}

    @property
    def problem(self) -> Problem | None:
        """Why the answer is incomplete, or not in the requested form; `None` for a good answer."""
        problem = self.answer.result.problem or self._misfit
        return None if problem is None else Problem(problem.code, without_urls(problem.message))

    async def run(self) -> str:
        """Run the request, and return the text about its progress. `pieces` describes the exceptions."""
        async with aclosing(self.pieces()) as pieces:
            told = [piece.text async for piece in pieces if isinstance(piece, ProgressPiece)]
        return "".join(told)

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Run the request, and yield the pieces of its answer and of its progress.

        Leaving the iteration cancels the run.

        Raises:
            RunFailed: the run has no answer.
            PodiumError: see `podium.conductor.Conductor.run`.
        """
        recorded, call = self._facts.recorded, self._facts.call
        progress = Progress(self.model.show, self.run_id)
        if recorded is not None:
            result = recorded.result
            self._facts.admission.settle(result)
            await self._check(ChatAnswer(answered(result), spent_before=result.usage))
            if told := "".join(map(progress.text, recorded.events)):
                yield ProgressPiece(told)
            if result.answer:
                yield TextPiece(result.answer)
            return
        async with aclosing(call.events(stream=self._facts.asked.stream)) as events:
            async for event, text in events:
                if isinstance(self.model.conductor, HostedConductor):
                    self.run_id = event.run_id  # it gives its runs ids of its own
                if isinstance(event, RunEnded) and event.run_id == self.run_id:
                    self._ended(event.result)
                if told := progress.text(event):
                    yield ProgressPiece(told)
                if text:
                    yield self._text(text)
        await self._check(call.answer())
        if rest := call.rest():
            yield TextPiece(rest)

    def _ended(self, result: Result) -> None:
        """Charge the run, and note its end."""
        self._facts.record.run_id, self._facts.record.result = self.run_id, result
        self._facts.admission.settle(result)

    def _text(self, text: str) -> TextPiece:
        if self._facts.asked.stream:
            self._facts.record.text_begins()
        return TextPiece(text)

    async def _check(self, answer: ChatAnswer) -> None:
        """Set the answer, and check its form."""
        form = _form_of(self._facts.asked)
        if form is not None and not answer.tool_calls:
            self._misfit = await anyio.to_thread.run_sync(form.problem, answer.text)  # it may take seconds
        self._answer = answer


class Turns:
    """Admits requests and makes their turns.

    Args:
        catalogue: the models.
        access: admits requests.
        journal: records the runs; `None` records nothing.
    """

    def __init__(self, catalogue: Catalogue, access: Access, journal: Journal | None) -> None:
        self.catalogue = catalogue
        self._access = access
        self._journal = journal
        self._stores: OrderedDict[tuple[str, str], ContinuationStore] = OrderedDict()
        """Continuations of tool calls, by caller and model: one caller never continues the run of another."""
        self._named: dict[str, Running] = {}
        """The running requests of idempotency keys."""

    def run_id(self, caller: Caller, idempotency_key: str | None, fingerprint: str) -> str:
        """Return the id of the run of a request: the id for its idempotency key, or without one a new id."""
        if idempotency_key is None:
            return uuid4().hex
        return NamedRun(caller.caller_id, idempotency_key, fingerprint).run_id

    @asynccontextmanager
    async def named(
        self, caller: Caller, idempotency_key: str | None, fingerprint: str
    ) -> AsyncGenerator[tuple[str, bool], None]:
        """Yield the id of the run of a request, and whether an earlier request has begun it.

        Repetitions wait until the block of the first request has ended.

        Raises:
            KeyReused: the idempotency key was used with another request.
        """
        if idempotency_key is None or self._journal is None:
            yield uuid4().hex, False
            return
        named = NamedRun(caller.caller_id, idempotency_key, fingerprint)
        async with named.held(self._named):
            yield named.run_id, await named.row(self._journal) is not None

    def find(self, caller: Caller, name: str | None) -> ServedModel:
        """Return the model with this name; with `None`, the first that the caller may call.

        Raises:
            ModelUnknown: there is no such model, or the caller may not call it.
        """
        models = self.catalogue if name is None else (self.catalogue.find(name),)
        for model in models:
            if caller.may_call(model.name):
                return model
        told = "any model" if name is None else f"the model {name!r:.200}"
        raise ModelUnknown(f"{told} does not exist, or your API key may not call it")

    @asynccontextmanager
    async def admitted(self, caller: Caller, asked: Asked) -> AsyncGenerator[Turn, None]:
        """Admit a request, and yield its turn.

        Raises:
            ModelUnknown: there is no such model.
            KeyRefused: the API key does not allow the request.
            KeyReused: the idempotency key was used with another request.
            QueryError: the conversation is invalid.
            ConfigError: an option of the request is not supported.
        """
        model = self.catalogue.find(asked.model)
        caller.check_model(model.name)
        record = current_record().of_model(model.name, asked.run_id)
        _form_of(asked)  # before anything is spent
        check_tool_results(asked.messages)
        named = self._named_run(caller, asked, model)
        async with nullcontext() if named is None else named.held(self._named):
            recorded = None if named is None else await self._recorded(named, model)
            ask = Ask(
                model=model.name,
                conductor=model.conductor,
                run_id=asked.run_id or (uuid4().hex if named is None else named.run_id),
                tokens=0 if caller.key is None else estimate_usage(asked.messages, "").input_tokens,
                may_exist=named is not None or asked.may_exist,
                is_recorded=asked.is_recorded,
            )
            async with self._access.admit(caller, ask) as admission:
                record.run_id = ask.run_id
                yield self._turn(caller, asked, ask, admission, record, recorded)

    @asynccontextmanager
    async def admitted_run(self, caller: Caller, asked: Asked) -> AsyncGenerator[RunTurn, None]:
        """Admit a run with the id of `asked`, which the caller executes with the options of the turn.

        Raises:
            ModelUnknown: there is no such model.
            KeyRefused: the API key does not allow the run.
            ConfigError: the runs of this caller or model are not recorded.
        """
        model = self.catalogue.find(asked.model)
        caller.check_model(model.name)
        record = current_record().of_model(model.name, asked.run_id)
        conductor, run_id = model.conductor, asked.run_id
        assert run_id is not None
        if self._journal is None or not caller.keeps_texts or isinstance(conductor, HostedConductor):
            raise ConfigError("this run cannot be executed in the background, because it is not recorded")
        ask = Ask(
            model=model.name,
            conductor=conductor,
            run_id=run_id,
            tokens=0 if caller.key is None else estimate_usage(asked.messages, "").input_tokens,
            may_exist=True,
        )
        async with self._access.admit(caller, ask) as admission:
            record.run_id = run_id
            options = self._options(asked, model, ask, admission)
            effort = model.effort(asked.effort)
            if effort is not None:
                options["sampling"] = Sampling(effort=model.efforts[effort].worker)
            yield RunTurn(conductor, options, admission)

    async def _recorded(self, named: NamedRun, model: ServedModel) -> Recorded | None:
        assert self._journal is not None
        assert isinstance(model.conductor, Conductor)
        return await named.recorded(self._journal, model.conductor.limits.seconds)

    def _turn(
        self,
        caller: Caller,
        asked: Asked,
        ask: Ask,
        admission: Admission,
        record: Record,
        recorded: Recorded | None,
    ) -> Turn:
        model = self.catalogue.find(ask.model)
        effort = model.effort(asked.effort)
        sampling = replace(asked.sampling, effort=None if effort is None else model.efforts[effort].worker)
        call = ChatCall(
            model.conductor,
            asked.messages,
            tools=asked.tools,
            sampling=sampling,
            store=self._store(caller, model) if asked.tools.offered else None,
            options=self._options(asked, model, ask, admission),
        )
        return Turn(
            _Facts(
                asked=asked,
                model=model,
                effort=effort,
                run_id=ask.run_id,
                admission=admission,
                call=call,
                record=record,
                recorded=recorded,
            )
        )

    def _named_run(self, caller: Caller, asked: Asked, model: ServedModel) -> NamedRun | None:
        """Return the run of the idempotency key; `None` without a key.

        Raises:
            ConfigError: the runs of this caller or model are not recorded.
        """
        if asked.idempotency_key is None:
            return None
        is_recorded = self._journal is not None and caller.keeps_texts and asked.is_recorded
        if not is_recorded or isinstance(model.conductor, HostedConductor):
            raise ConfigError("Idempotency-Key is not supported here, because these runs are not recorded")
        return NamedRun(caller.caller_id, asked.idempotency_key, asked.fingerprint)

    def _options(self, asked: Asked, model: ServedModel, ask: Ask, admission: Admission) -> RunOptions:
        options = admission.options.copy()
        options["run_id"], options["is_new_id"] = ask.run_id, not ask.may_exist
        if not asked.is_recorded:
            options |= {"journal": admission.options.get("journal") or MemoryJournal(), "uses_cache": False}
        if options.get("journal") is None:
            options["journal"] = self._journal or MemoryJournal()
        limits = model.limits(model.effort(asked.effort), options.get("limits"))
        if limits is not None:
            options["limits"] = limits
        if model.is_worker:
            options["middleware"] = verbatim(asked.messages)
        return options

    def _store(self, caller: Caller, model: ServedModel) -> ContinuationStore:
        key = caller.caller_id, model.name
        if key not in self._stores:
            self._stores[key] = ContinuationStore(_MOST_CONTINUATIONS)
            if len(self._stores) > _MOST_STORES:
                self._stores.popitem(last=False)
        self._stores.move_to_end(key)
        return self._stores[key]


def _form_of(asked: Asked) -> "AnswerForm | None":
    """Return the form that a request asks for.

    Raises:
        ConfigError: its JSON schema is invalid.
    """
    if asked.sampling.constraint is None:
        return None
    from podium_server.turn.answer_form import AnswerForm  # noqa: PLC0415 - jsonschema is slow to import

    return AnswerForm(asked.sampling.constraint)
