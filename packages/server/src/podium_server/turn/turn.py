"""A request of any API in the words of Podium, its run, and its answer."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, Literal

import anyio.to_thread

from podium.errors import ConfigError, PlannerError, PodiumError, RunFailed, WorkerRefused
from podium.hosts import ChatAnswer, ChatCall
from podium.hosts.progress import Progress
from podium.hosts.results import answered, lack_after
from podium.journal import Journal
from podium.types import (
    Message,
    Part,
    Plan,
    Problem,
    Result,
    RunEnded,
    RunResumed,
    RunStarted,
    Sampling,
    Tools,
)
from podium.types.result import writer_of
from podium.types.schemas import NotChecked, fault_of
from podium.usage import Usage
from podium_server.errors import RunCancelled, ServerError, actions_form, without_urls
from podium_server.http import ServerStopping
from podium_server.keys import Admission
from podium_server.keys.recorded import recorded_actions
from podium_server.models import ServedModel
from podium_server.record import Record
from podium_server.settings import Effort
from podium_server.turn.earlier import Recorded
from podium_server.turn.running import Interrupt, LivePieces

_NO_TOOLS = Tools(())
_PLAIN = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request of any API."""

    model: str
    """The name of the model in the request."""
    messages: Sequence[Message]
    """The whole conversation."""
    tools: Tools = _NO_TOOLS
    """Tools for the worker that writes the answer."""
    sampling: Sampling = _PLAIN
    """Sampling of that worker, without the effort."""
    effort: Effort | None = None
    stream: bool = False
    """Whether the client reads the answer while it is written."""
    idempotency_key: str | None = None
    """Names the run, within the API key; `None` for a new run."""
    is_parallel: bool = True
    """Whether the answer may have several tool calls."""
    fingerprint: str = ""
    """Hash of the body of the request, which a repetition with the same idempotency key must have."""
    run_id: str | None = None
    """The id of the run; `None` for a new id, or the id for the idempotency key."""
    is_recorded: bool = True
    """Whether the run may be recorded."""
    plan: Plan | None = None
    """The plan of the request; `None` if the planner writes one."""
    context: Mapping[str, str] = field(default_factory=dict)
    """Named texts that subtasks may refer to."""
    client: Mapping[str, Any] | None = None
    """What the record of the run keeps of the request; see `RunOptions`."""
    user: str = ""
    """The id of the end user, as the client gave it."""
    labels: Collection[str] = ()
    """Labels of the query, in addition to those of the key."""
    only_plans: bool = False
    """Whether the run waits for the approval of its plan."""
    may_exist: bool = False
    """Whether an earlier process may have begun the run with the id `run_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of a run."""

    asked: Asked
    run_id: str
    answer: ChatAnswer
    acts: bool
    """Whether the model acts."""
    misfit: Problem | None
    """Why the answer does not have the requested form."""

    @property
    def tool_calls(self) -> Sequence[Part]:
        """The tool calls of the answer; only the first, if the request allows no parallel calls."""
        calls = self.answer.tool_calls
        return calls if self.asked.is_parallel else calls[:1]

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        """Why the answer ended: `length` also for an incomplete answer whose text cannot say so."""
        answer = self.answer
        return answer.finish_reason if self.asked.sampling.constraint is None else answer.host_finish_reason

    @property
    def extra(self) -> Mapping[str, Any]:
        """What the provider answered to fields of its own, such as `logprobs` and further `choices`."""
        outcomes = self.answer.result.outcomes if self.asked.sampling.extra else ()
        return next((each.data for each in outcomes if each.data is not None), {})

    @property
    def usage(self) -> Usage:
        """The tokens of the run: those of the answer, and as orchestration all others, as Fugu divides them.

        The tokens of the answer are those of the step that wrote it, and of all executions inside of a map or
        a block that is the answer; or those of the planner's message that is the answer. The planner, the
        other steps and the judge are orchestration. `Usage.total_tokens` is the sum of both.
        """
        result = self.answer.result
        total = result.usage
        current = next((r for r in reversed(result.rounds) if r.plan not in (None, Plan(()))), None)
        answer = None if current is None else writer_of(current)
        own = Usage()
        if current is not None and current.plan is not None and current.plan.answer is not None:
            own = current.proposals[-1].usage
        elif current is not None and answer is not None:
            own = Usage.total(o.usage for o in current.outcomes if o.plan_step == answer.step)
        rest = total.beyond(own)
        return Usage(
            input_tokens=own.input_tokens,
            output_tokens=own.output_tokens,
            cached_tokens=own.cached_tokens,
            reasoning_tokens=own.reasoning_tokens,
            orchestration_input_tokens=own.orchestration_input_tokens + rest.total_input_tokens,
            orchestration_output_tokens=own.orchestration_output_tokens + rest.total_output_tokens,
            orchestration_cached_tokens=own.orchestration_cached_tokens + rest.total_cached_tokens,
            estimated=total.estimated,
        )

    @property
    def summary(self) -> dict[str, Any]:
        """The id and the status of the run, as plain JSON.

        It has the problem of an incomplete answer, a note if calls are charged without a reported usage,
        whether the model acts, and the actions of the run, if there are any.
        """
        problem, result = self.problem, self.answer.result
        return {
            "run_id": self.run_id,
            "status": "ok" if problem is None and result.status == "ok" else "partial",
            "problem": None if problem is None else {"code": problem.code, "message": problem.message},
            "usage_note": result.usage_note or None,
            "acts": self.acts,
            **({"actions": actions_form(result.actions)} if result.actions else {}),
        }

    @property
    def problem(self) -> Problem | None:
        """Why the answer is incomplete, or not in the requested form; `None` for a good answer."""
        problem = self.answer.result.problem or self.misfit
        return None if problem is None else Problem(problem.code, without_urls(problem.message))


def check_schema(asked: Asked) -> None:
    """Raise `ConfigError` if the JSON schema of the answer is invalid."""
    schema = _schema(asked)
    if schema is None:
        return
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - jsonschema is slow to import
    from jsonschema.validators import Draft202012Validator, validator_for  # noqa: PLC0415

    kind: Any = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"the JSON schema of the answer is invalid: {error.message:.300}") from error
    except RecursionError as error:
        raise ConfigError("the JSON schema of the answer is nested too deeply") from error


async def checked_answer(asked: Asked, run_id: str, answer: ChatAnswer, *, acts: bool) -> Answered:
    """Return an answer after a check of its form; a grammar is not checked."""
    schema, misfit = _schema(asked), None
    if schema is not None and not answer.tool_calls:
        misfit = await anyio.to_thread.run_sync(_misfit, schema, answer.text)  # it may take seconds
    if asked.sampling.constraint is None and answer.finish_reason == "stop":
        answer = replace(answer, lack=lack_after(answer.result))
    return Answered(asked=asked, run_id=run_id, answer=answer, acts=acts, misfit=misfit)


def _schema(asked: Asked) -> Mapping[str, Any] | None:
    constraint = asked.sampling.constraint
    return constraint.value if constraint is not None and isinstance(constraint.value, Mapping) else None


def _misfit(schema: Mapping[str, Any], answer: str) -> Problem | None:
    """Return why an answer does not have the form; `None` if it has."""
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError):
        return Problem("not_json", "the request asked for JSON, and the answer is not JSON")
    try:
        fault = fault_of(schema, schema, data)
    except NotChecked as error:
        return Problem("not_checked", f"the answer was not checked, because its JSON schema {error}")
    return Problem("not_schema", f"the answer does not fit the JSON schema at {fault}") if fault else None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ProgressPiece:
    """A piece of text about the progress of the run, which APIs send as reasoning."""

    text: str


Piece = TextPiece | ProgressPiece


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about a turn before its run."""

    asked: Asked
    model: ServedModel
    effort: Effort | None
    run_id: str
    admission: Admission
    call: ChatCall
    record: Record
    """What the log and the metrics tell about the request."""
    live: LivePieces
    """Gets the events of the run."""
    recorded: Recorded | None
    """The recorded run of an earlier request with the same idempotency key."""
    journal: Journal | None
    """Records the run; `None` for a hosted conductor."""
    keep: Callable[[str, Sequence[Part], ChatAnswer], Awaitable[None]]
    """Keeps the continuation of an answer with tool calls."""


_REFUSALS = (400, 413, 415, 422)
"""The statuses of a request that is invalid; for others, such as a wrong key, the client can do nothing."""


class ProviderRefused(ServerError):
    """The provider of a worker that answers as itself has refused the request."""

    code = WorkerRefused.code
    status = 400


class Turn:
    """One admitted request. `pieces` runs it; afterwards `answer` is set."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.interrupt = Interrupt()
        """Ends the run from outside."""
        self.run_id = facts.run_id
        self.model = facts.model
        self.created = int(time())
        """When the turn began, in seconds of Unix time."""
        self._is_replayed = facts.recorded is not None
        """Whether an earlier request has made the answer."""
        self._answered: Answered | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response, in lower case."""
        headers = {"x-podium-run-id": self.run_id, "x-podium-model": self.model.versioned_id}
        if self._facts.effort is not None:
            headers["x-podium-effort"] = self._facts.effort
        if self._is_replayed:
            headers["idempotent-replayed"] = "true"
        if self._answered is not None:
            headers["x-podium-status"] = str(self.answered.summary["status"])
            headers["x-podium-usage"] = "estimated" if self.answered.usage.estimated else "measured"
        return {**headers, **self._facts.admission.headers}

    @property
    def answered(self) -> Answered:
        """The answer as the request asked for it, after `pieces` has ended."""
        assert self._answered is not None
        return self._answered

    async def run(self) -> str:
        """Run the request, and return the text about its progress."""
        async with aclosing(self.pieces()) as pieces:
            told = [piece.text async for piece in pieces if isinstance(piece, ProgressPiece)]
        return "".join(told)

    async def frames(
        self, text: Callable[[str], bytes], progress: Callable[[str], bytes], end: Callable[[], bytes]
    ) -> AsyncGenerator[bytes, None]:
        """Run the request, and yield its pieces as the functions write them; empty frames are left out."""
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                if data := (text if isinstance(piece, TextPiece) else progress)(piece.text):
                    yield data
        yield end()

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Run the request, and yield the pieces of its answer and of its progress.

        Leaving the iteration cancels the run.
        """
        try:
            async with aclosing(self._pieces()) as pieces:
                async for piece in pieces:
                    yield piece
        except (RunFailed, PlannerError) as error:
            failure = self._facts.admission.failure(error)
            if self.model.is_worker and failure is error and (told := _refusal(error)):
                failure = ProviderRefused(told)
                failure.run_id = self.run_id
            failure.actions = error.actions
            raise failure from error
        except (RunCancelled, ServerStopping) as error:
            actions = await recorded_actions(self._facts.journal, self.run_id)
            error.actions, error.knows_actions = actions or (), actions is not None
            raise

    async def _pieces(self) -> AsyncGenerator[Piece, None]:
        recorded, call = self._facts.recorded, self._facts.call
        progress = Progress(self.model.show, self.run_id)
        if recorded is not None:
            result = recorded.result
            self._facts.admission.settle(result)
            await self._check(ChatAnswer(answered(result), spent_before=result.usage))
            if told := "".join(map(progress.text, recorded.events)):
                yield ProgressPiece(told)
            if self.answered.answer.text:
                yield TextPiece(self.answered.answer.text)
            return
        is_executed = False
        with self._facts.live.publishing(self.run_id) as publish:
            async with (
                aclosing(call.events(stream=self._facts.asked.stream)) as events,
                aclosing(self.interrupt.guarded(events)) as guarded,
            ):
                async for event, text in guarded:
                    publish(event)
                    is_executed |= isinstance(event, RunStarted | RunResumed)
                    if isinstance(event, RunEnded) and event.run_id == self.run_id:
                        self._ended(event.result)
                    if told := progress.text(event):
                        yield ProgressPiece(told)
                    if text:
                        yield self._text(text)
        self._is_replayed = not is_executed  # it waited for another replica
        await self._check(call.answer())
        if rest := call.rest() + self.answered.answer.lack:
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
        """Set the answer, check its form, and keep the continuation of its tool calls."""
        acts = self.model.conductor.acts
        self._answered = await checked_answer(self._facts.asked, self.run_id, answer, acts=acts)
        if self.answered.tool_calls:
            await self._facts.keep(self.run_id, self.answered.tool_calls, self.answered.answer)


def _refusal(error: PodiumError) -> str:
    """Return what the provider said about the request; empty if it has not refused the request."""
    result = error.result if isinstance(error, RunFailed) else None
    problems = [] if result is None else [outcome.problem for outcome in result.outcomes]
    told = [each.message for each in problems if each is not None and each.status in _REFUSALS]
    return without_urls(told[0]) if told else ""
