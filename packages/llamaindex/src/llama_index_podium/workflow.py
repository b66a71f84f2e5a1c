"""A conductor as a workflow, which asks people by LlamaIndex's events of human input."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Literal, Unpack
from uuid import uuid4

import anyio
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import Response
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from typing_extensions import override

from llama_index_podium.conductor import ConductedCall, FaceOptions, check_run_id, conductor_of
from llama_index_podium.events import PersonAskedEvent, ProgressEvent
from llama_index_podium.messages import from_llama
from llama_index_podium.workers.workflows import ASKER
from podium.conductor import Conductor
from podium.errors import QueryError, RunWaiting
from podium.hosts import ConductorFace, Partial
from podium.hosts.decisions import asked_text, record_decision, waiting_of
from podium.hosts.faces import run_id_of
from podium.hosts.progress import Progress
from podium.hosts.results import check_partial
from podium.types import ApprovalAsked, Event as PodiumEvent

if TYPE_CHECKING:
    from workflows.handler import WorkflowHandler

_RUN: Final = "podium_run"
_ASKED: Final = "podium_asked"


class QuestionEvent(StartEvent):
    """The arguments of `ConductorWorkflow.run`."""

    messages: list[ChatMessage]
    run_id: str


class _ConductEvent(Event):
    """The run can begin or continue."""


class _WaitEvent(Event):
    """A question is over at this time."""

    until: float


@ConductorFace.register
class ConductorWorkflow(Workflow):
    """Plans and answers a question, and asks a person for what the run waits for.

    `await workflow.run(user_msg=…, chat_history=…, run_id=…)` returns a `Response`, with the source nodes and
    the metadata of `ConductorQueryEngine`. The stream of its events has the pieces of the answer
    (`ProgressEvent`). What waits for approval (`Policy(approve="later")`), and the question of a
    `PersonWorker`, is a `PersonAskedEvent`; an agent or a workflow that is a worker asks with its own
    `InputRequiredEvent`. Each is answered with a `HumanResponseEvent`. Waiting runs are in the conductor's
    journal.

    Args:
        conductor: plans and runs each question.
        show_steps: whether the stream of events also shows the plan and the steps.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        timeout: the most seconds of a run, with the time in which it waits; `None` for no limit.
        options: see `ConductorQueryEngine`.

    Raises:
        TypeError: as from `ConductorQueryEngine`, also the other errors.
        ConfigError: see there.
        RunFailed: from each run: there is no answer.
        PodiumError: from each run: see `Conductor.run`.
    """

    def __init__(
        self,
        conductor: Conductor | None = None,
        *,
        show_steps: bool = False,
        partial: Partial = "return",
        timeout: float | None = None,
        **options: Unpack[FaceOptions],
    ) -> None:
        super().__init__(timeout=timeout)
        self.conductor = conductor_of(type(self), conductor, options)
        self.show_steps = show_steps
        self.partial: Partial = check_partial(partial)
        self.run_id = options.get("run_id")
        self._people: dict[str, _Person] = {}
        """Who answers the workers of a run, by its id."""

    @override
    def run(  # type: ignore[override]
        self,
        user_msg: str | ChatMessage = "",
        chat_history: Sequence[ChatMessage] = (),
        *,
        run_id: str = "",
        ctx: Context | None = None,
        start_event: StartEvent | None = None,
    ) -> "WorkflowHandler":
        """Begin a run, or with the context of an interrupted one, continue it.

        Args:
            user_msg: the question.
            chat_history: the conversation before it.
            run_id: the run's id in the journal, with which the same call in a new process continues it; the
                default is the `run_id` of the workflow with a hash of the question, or a new id.
            ctx: the context, as in LlamaIndex.
            start_event: the question in one event, in place of the others, as in LlamaIndex.

        Raises:
            ConfigError: the run has an id, and the conductor has no journal.
        """
        if run_id:
            check_run_id(run_id, self.conductor)
        question = ChatMessage(user_msg) if isinstance(user_msg, str) else user_msg
        asked = [*chat_history, question]
        named = run_id or run_id_of(self.run_id, from_llama(asked)).get("run_id") or uuid4().hex
        start = start_event or QuestionEvent(messages=asked, run_id=named)
        return super().run(ctx=ctx, start_event=start)  # its own `run_id` names executions in this process

    @step
    async def begin(self, ctx: Context, event: QuestionEvent) -> _ConductEvent:
        """Store the question."""
        await ctx.store.set(_RUN, event)
        await ctx.store.set(_ASKED, [])
        return _ConductEvent()

    @step(num_workers=1)
    async def conduct(self, ctx: Context, event: _ConductEvent) -> StopEvent | _WaitEvent | None:  # noqa: ARG002
        """Begin the run, or continue it, until its end or until it waits."""
        asked: QuestionEvent = await ctx.store.get(_RUN)
        call = self._call(ctx, asked)
        person = self._people[asked.run_id] = _Person(ctx)
        token = ASKER.set(person.ask)
        try:
            async with aclosing(call.events(stream=True)) as events:
                async for text in events:
                    _write(ctx, delta=text)
            answer = call.answer()
        except RunWaiting:
            until = await self._ask(ctx, asked.run_id)
            return None if until is None else _WaitEvent(until=until)
        finally:
            ASKER.reset(token)
            del self._people[asked.run_id]
        _write(ctx, delta=call.rest())
        return StopEvent(result=Response(answer.text, call.nodes, call.metadata))

    @step
    async def wait(self, event: _WaitEvent) -> _ConductEvent:
        """Wait for the deadline of a question."""
        await anyio.sleep(max(0.0, event.until - time.time()))
        return _ConductEvent()

    @step(num_workers=1)
    async def decide(self, ctx: Context, event: HumanResponseEvent) -> _ConductEvent | None:
        """Record what a person has answered."""
        asked: QuestionEvent = await ctx.store.get(_RUN)
        person = self._people.get(asked.run_id)
        if person is not None and person.take(event):
            return None
        waiting = {_name(each): each for each in await waiting_of(self.conductor, asked.run_id)}
        name = event.get("name", None) or (next(iter(waiting)) if len(waiting) == 1 else "")
        if name not in waiting:
            problem = (
                f"Nothing waits under the name {name!r}: the answer needs one of the names of the events."
            )
            await self._ask(ctx, asked.run_id, problem=problem)
            return None
        try:
            said = str(event.get("response", ""))
            await record_decision(self.conductor, waiting[name], said, by="HumanResponseEvent")
        except (QueryError, ValueError) as error:
            await self._ask(ctx, asked.run_id, name, problem=f"{error}")
            return None
        return _ConductEvent()

    def _call(self, ctx: Context, asked: QuestionEvent) -> ConductedCall:
        progress = Progress("steps") if self.show_steps else None

        def on_event(event: PodiumEvent) -> None:
            if progress is not None:
                _write(ctx, progress=progress.text(event))

        return ConductedCall(
            self.conductor,
            from_llama(asked.messages),
            run={} if self.conductor.journal is None else {"run_id": asked.run_id},
            on_event=on_event,
            partial=self.partial,
        )

    async def _ask(self, ctx: Context, run_id: str, again: str = "", problem: str = "") -> float | None:
        """Ask for what was not asked yet; with a problem, again for this name, or for all.

        Returns:
            When the first question is over; `None` for never.
        """
        told: list[str] = await ctx.store.get(_ASKED)
        waiting = [each for each in await waiting_of(self.conductor, run_id) if not each.is_late]
        for asked in waiting:
            key = f"{asked.round} {_name(asked)} {asked.action}"
            if key in told and (not problem or _name(asked) != (again or _name(asked))):
                continue
            told.append(key)
            question = asked.question
            ctx.write_event_to_stream(
                PersonAskedEvent(
                    prefix=asked_text(asked, self.conductor.pool.names, problem),
                    run_id=run_id,
                    name=_name(asked),
                    kind=_kind(asked),
                    choices=[] if question is None else list(question.choices),
                    until=None if question is None else question.until,
                )
            )
        await ctx.store.set(_ASKED, told)
        ends = [each.question.until for each in waiting if each.question and each.question.until]
        return min(ends, default=None)


def _write(ctx: Context, **texts: str) -> None:
    if any(texts.values()):
        ctx.write_event_to_stream(ProgressEvent(**texts))


def _name(asked: ApprovalAsked) -> str:
    return "plan" if asked.step is None else asked.name


def _kind(asked: ApprovalAsked) -> Literal["plan", "action", "fan_out", "question"]:
    if asked.question is not None:
        return "question"
    if asked.step is None:
        return "plan"
    return "fan_out" if asked.is_fan_out else "action"


class _Person:
    """Who answers the workers of one run, one after the other, while they wait."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._lock = anyio.Lock()
        self._answer: asyncio.Future[HumanResponseEvent] | None = None

    async def ask(self, event: InputRequiredEvent) -> HumanResponseEvent:
        """Send a worker's event to the stream, and return the answer."""
        async with self._lock:
            self._answer = asyncio.get_running_loop().create_future()
            try:
                self._ctx.write_event_to_stream(event)
                return await self._answer
            finally:
                self._answer = None

    def take(self, event: HumanResponseEvent) -> bool:
        """Return whether a worker waits for an answer, which it then gets."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(event)
        return True
