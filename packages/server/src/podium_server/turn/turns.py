"""Admits requests, and makes their turns."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal
from uuid import uuid4

from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError
from podium.hosts import ChatAnswer, ChatCall
from podium.journal import MemoryJournal, SqlJournal
from podium.policy import Policy
from podium.run import RunOptions
from podium.types import Message, Part, Result, Sampling
from podium.types.messages import estimate_usage, read_conversation
from podium_server.keys import Access, Admission, Ask, Caller
from podium_server.models import Catalogue, ModelUnknown, ServedModel
from podium_server.record import Record, current_record
from podium_server.turn.earlier import Continuations, NamedRun, Recorded, SameRequests
from podium_server.turn.running import LivePieces, OpenRun, Running
from podium_server.turn.turn import Asked, Facts, Turn, check_schema


@dataclass(frozen=True, slots=True)
class RunTurn:
    """An admitted run."""

    conductor: Conductor
    options: RunOptions
    """The options that the run must have."""
    admission: Admission
    live: LivePieces
    """Gets the events of the run."""

    def settle(self, result: Result) -> None:
        """Charge the run after its end."""
        self.admission.settle(result)


def check_tool_results(messages: Sequence[Message]) -> None:
    """Check the tool results of a conversation."""
    called = set[str]()
    for number, message in enumerate(messages):
        called.update(str(call.get("id")) for call in message.tool_calls)
        if message.role != "tool":
            continue
        if message.tool_call_id is None:
            raise QueryError(
                f"message {number} is a tool result without tool_call_id: add the id of its call"
            )
        if message.tool_call_id not in called:
            told = f"message {number} is the result of the tool call {message.tool_call_id!r:.100}"
            raise QueryError(
                f"{told}, which is in no earlier message: send the message with this call before it"
            )


class Turns:
    """Admits requests and makes their turns."""

    def __init__(
        self,
        catalogue: Catalogue,
        access: Access,
        journal: SqlJournal | None,
        jobs: Callable[[str], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.running = Running()
        """The runs of open requests."""
        self.live = LivePieces()
        """The pieces of the texts of the running runs."""
        self._jobs = jobs
        self._access = access
        self._journal = journal
        self.continuations = Continuations(journal)
        self._named: dict[str, SameRequests] = {}
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
        """
        if idempotency_key is None or self._journal is None:
            yield uuid4().hex, False
            return
        named = NamedRun(caller.caller_id, idempotency_key, fingerprint)
        async with named.held(self._named):
            is_job = await self._is_job(named)
            yield named.run_id, await named.row(self._journal) is not None or is_job

    def find(self, caller: Caller, name: str | None) -> ServedModel:
        """Return the model with this name; with `None`, the first that the caller may call."""
        models = self.catalogue if name is None else (self.catalogue.find(name),)
        for model in models:
            if caller.may_call(model.name):
                return model
        told = "any model" if name is None else f"the model {name!r:.200}"
        raise ModelUnknown(f"{told} does not exist, or your API key may not call it")

    @asynccontextmanager
    async def admitted(
        self, caller: Caller, asked: Asked, recorded: Recorded | None = None
    ) -> AsyncGenerator[Turn, None]:
        """Admit a request, and yield its turn."""
        model = self.catalogue.find(asked.model)
        caller.check_model(model.name)
        record = current_record().of_model(model.name, asked.run_id)
        check_schema(asked)  # before anything is spent
        check_tool_results(asked.messages)
        named = self._named_run(caller, asked)
        async with nullcontext() if named is None else named.held(self._named):
            if named is not None:
                recorded = await self._recorded(named, model)
            ask = Ask(
                model=model.name,
                conductor=model.conductor,
                run_id=asked.run_id or (uuid4().hex if named is None else named.run_id),
                tokens=0 if caller.key is None else estimate_usage(asked.messages, "").input_tokens,
                may_exist=named is not None or asked.may_exist,
                is_recorded=asked.is_recorded,
            )
            has_budget = caller.key is not None and caller.key.rules.has_budget
            if has_budget and recorded is None and not await self._has_plan(asked, ask):
                ask = replace(ask, first=_first(asked))
            async with self._access.admit(caller, ask) as admission:
                record.run_id = ask.run_id
                turn = await self._turn(caller, asked, ask, admission, record, recorded)
                facts = {"is_recorded": self._records(caller, asked), "is_named": named is not None}
                with self.running.holding(OpenRun(ask.run_id, turn.interrupt, **facts)):
                    yield turn

    @asynccontextmanager
    async def admitted_run(
        self, caller: Caller, asked: Asked, *, is_new: bool = False
    ) -> AsyncGenerator[RunTurn, None]:
        """Admit a run with the id of `asked`, which the caller executes with the options of the turn."""
        model = self.catalogue.find(asked.model)
        caller.check_model(model.name)
        record = current_record().of_model(model.name, asked.run_id)
        conductor, run_id = model.conductor, asked.run_id
        assert run_id is not None
        if self._journal is None or not caller.keeps_texts:
            raise ConfigError("this run cannot be executed in the background, because it is not recorded")
        ask = Ask(
            model=model.name,
            conductor=conductor,
            run_id=run_id,
            tokens=0 if caller.key is None else estimate_usage(asked.messages, "").input_tokens,
            may_exist=True,
            first=_first(asked) if is_new else None,
        )
        async with self._access.admit(caller, ask) as admission:
            record.run_id = run_id
            options = self._options(caller, asked, model, ask, admission)
            effort = model.effort(asked.effort)
            if effort is not None:
                options["sampling"] = Sampling(effort=model.efforts[effort].worker)
            yield RunTurn(conductor, options, admission, self.live)

    async def check_budget(self, caller: Caller, asked: Asked, *, is_new: bool) -> None:
        """Check that the budget of a caller has enough for a run; see `Access.check_budget`."""
        model = self.catalogue.find(asked.model)
        first = _first(asked) if is_new else None
        ask = Ask(model=model.name, conductor=model.conductor, run_id=asked.run_id or "", first=first)
        await self._access.check_budget(caller, ask)

    async def _has_plan(self, asked: Asked, ask: Ask) -> bool:
        """Return whether a run may have a plan before it is admitted: of an earlier request, or of a turn."""
        if read_conversation(asked.messages)[1]:
            return True
        if not ask.may_exist or self._journal is None:
            return False
        return bool(await self._journal.runs(ids=[ask.run_id]))

    async def _recorded(self, named: NamedRun, model: ServedModel) -> Recorded | None:
        assert self._journal is not None
        await self._is_job(named)
        return await named.recorded(self._journal, model.conductor.limits.seconds)

    async def _is_job(self, named: NamedRun) -> bool:
        """Return whether an idempotency key names a run in the background, which may not have begun."""
        return named.is_known(() if self._jobs is None else await self._jobs(named.prefix))

    async def _turn(
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
        sampling = asked.sampling
        if model.efforts or not model.is_worker:  # else the provider gets the effort as it was given
            given = None if effort is None else model.efforts[effort].worker
            sampling = replace(sampling, effort=given)
        options = self._options(caller, asked, model, ask, admission)
        call = ChatCall(
            model.conductor,
            asked.messages,
            tools=asked.tools,
            sampling=sampling,
            plan=asked.plan,
            continuation=await self.continuations.find((caller.caller_id, model.name), asked.messages),
            partial=None,  # the body has the status
            options=options,
        )
        return Turn(
            Facts(
                asked=asked,
                model=model,
                effort=effort,
                run_id=ask.run_id,
                admission=admission,
                call=call,
                record=record,
                live=self.live,
                recorded=recorded,
                journal=options.get("journal"),
                keep=partial(self._keep, caller, asked, model),
            )
        )

    async def _keep(
        self,
        caller: Caller,
        asked: Asked,
        model: ServedModel,
        run_id: str,
        calls: Sequence[Part],
        answer: ChatAnswer,
    ) -> None:
        """Keep the continuation of an answer with tool calls."""
        is_recorded = self._records(caller, asked)
        await self.continuations.keep(
            (caller.caller_id, model.name),
            asked.messages,
            calls,
            run_id=run_id,
            unrecorded=None if is_recorded else answer.continuation,
        )

    def _records(self, caller: Caller, asked: Asked) -> bool:
        """Return whether the journal of the server records the run of a request."""
        return self._journal is not None and caller.keeps_texts and asked.is_recorded

    def _named_run(self, caller: Caller, asked: Asked) -> NamedRun | None:
        """Return the run of the idempotency key; `None` without a key."""
        if asked.idempotency_key is None:
            return None
        if not self._records(caller, asked):
            raise ConfigError("Idempotency-Key is not supported here, because these runs are not recorded")
        return NamedRun(caller.caller_id, asked.idempotency_key, asked.fingerprint)

    def _options(
        self, caller: Caller, asked: Asked, model: ServedModel, ask: Ask, admission: Admission
    ) -> RunOptions:
        options = admission.options.copy()
        options["asker"], options["client"], options["user"] = caller.caller_id, asked.client, asked.user
        options["labels"] = frozenset(options.get("labels", ())) | frozenset(asked.labels)
        options["run_id"], options["is_new_id"] = ask.run_id, not ask.may_exist
        if asked.only_plans:
            options["policy"] = Policy(approve="later") & (options.get("policy") or Policy())
        if not asked.is_recorded:
            options |= {"journal": admission.options.get("journal") or MemoryJournal(), "uses_cache": False}
        if options.get("journal") is None:
            options["journal"] = self._journal or MemoryJournal()
        limits = model.limits(model.effort(asked.effort), options.get("limits"))
        if limits is not None:
            options["limits"] = limits
        return options


def _first(asked: Asked) -> Literal["planner", "worker"]:
    return "planner" if asked.plan is None else "worker"
