"""A conductor as an AutoGen agent: alone, in a team, or in another conductor's pool."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Literal, Unpack
from uuid import uuid4

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import ChatAgent, Response
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ThoughtEvent,
)
from autogen_agentchat.state import BaseState
from autogen_core import CancellationToken
from autogen_core.model_context import ChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, ChatCompletionClient, LLMMessage

from autogen_podium.messages import (
    USER,
    from_autogen,
    message_metadata,
    read_usage,
    to_context,
    with_question_last,
    write_usage,
)
from autogen_podium.turns import cancelled_by
from autogen_podium.workers.agent import AgentWorker, Inner
from autogen_podium.workers.wrap import Participant, conductor_of
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import QueryError
from podium.hosts import ConductorFace, Partial, RecordedRun
from podium.hosts.decisions import asked_text, conversation_of, record_decision, waiting_of
from podium.hosts.faces import ConductorOptions, run_id_in
from podium.hosts.progress import Maps
from podium.hosts.results import answered, check_partial, lack_after, plan_lines, text_answer
from podium.planners import Planner
from podium.run import RunOptions
from podium.run_state import fold
from podium.types import (
    ApprovalAsked,
    Completion,
    Event,
    Message,
    PlanReady,
    Result,
    StepDelta,
    StepEnded,
    StepStarted,
)
from podium.types.result import answer_outcome
from podium.usage import Usage
from podium.workers import Caller, Card, Request, Worker

_BY: Final = "autogen"
_NOTHING: Final = Usage()
_Emit = Callable[[Inner | Response], None]


class RunWatcher:
    """Watches a run, and may delay its next calls; this one does nothing."""

    def tell(self, message: Inner | Response) -> None:
        """Handle a message, before the reader of the stream gets it."""

    def hear(self, event: Event) -> None:
        """Handle an event of the run, or of a nested run."""

    async def ready(self) -> None:
        """Return when the next worker may be called."""


_NOBODY: Final = RunWatcher()


class ConductorAgentState(BaseState):
    """The memory of a `ConductorAgent`."""

    model_context: Mapping[str, Any]
    session: str = ""
    """The id by which the runs of the agent are found in a journal."""
    waiting: str = ""
    """The id of the run that waits for the user's decision; empty for none."""
    type: Literal["ConductorAgentState"] = "ConductorAgentState"


@ConductorFace.register
class ConductorAgent(BaseChatAgent):
    """Plans a task and has workers execute the steps.

    The worker of a step is shown the question, the steps on its access list and its subtask, and nothing
    else. Therefore an agent that is a worker is reset before each step, and executes one step at a time.
    Steps that do not depend on each other run in parallel. Messages inside the workers are streamed; the
    `metadata` of each message name the run and the step. The conductor agent remembers the conversation
    between turns. Turns may overlap: a turn sees the messages from before its start. With a journal, a task
    that is given again continues its run if that run waits, was interrupted, or failed after an action.

    If the run waits for a person, the answer is a `HandoffMessage` to `user`. A `HandoffMessage` of the user
    to this agent decides: `yes`, `no` and the reason, or the answer to a question.

    Args:
        name: the agent's name, an identifier.
        conductor: a conductor, instead of its parts.
        planner: writes the plans: a model client, or a planner or worker of Podium.
        workers: agents, teams, tools, model clients, and workers of Podium, which execute the steps.
        description: the description for other agents and teams.
        model_context: the memory between turns; `None` keeps all messages.
        run_id: names the runs in the conductor's journal: the same conversation, also in a new process,
            continues its run. With `None`, the saved state of the agent names them.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        show_steps: whether plans and failed steps are sent as `ThoughtEvent`s.
        model_client_stream: whether the workers' text is streamed in chunks.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, …; and `workflows`.

    Raises:
        ConfigError: there is no planner, or a conductor and its parts; or an option is invalid.
    """

    def __init__(  # noqa: PLR0913 - the signature of AutoGen's agents
        self,
        name: str,
        conductor: Conductor | None = None,
        *,
        planner: ChatCompletionClient | Planner | Worker | None = None,
        workers: Sequence[Participant] = (),
        description: str = "Plans a task and has a team carry it out.",
        model_context: ChatCompletionContext | None = None,
        run_id: str | None = None,
        partial: Partial = "return",
        show_steps: bool = False,
        model_client_stream: bool = False,
        **options: Unpack[ConductorOptions],
    ) -> None:
        super().__init__(name, description)
        card = Card(name=name, description=description)
        self._conductor = conductor_of(conductor, planner, workers, options, face=ConductorAgent, card=card)
        self._context = model_context or UnboundedChatCompletionContext()
        self._run_id = run_id
        self._partial = check_partial(partial)
        self._show_steps = show_steps
        self._model_client_stream = model_client_stream
        self._resets = 0
        self._session = run_id or uuid4().hex
        self._waiting = ""

    @property
    def conductor(self) -> Conductor:
        """The conductor that plans and runs each task."""
        return self._conductor

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of the answers: a handoff is a question to the user."""
        return (TextMessage, HandoffMessage)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer messages; see `on_messages_stream`."""
        async with aclosing(self.on_messages_stream(messages, cancellation_token)) as stream:
            *_, response = [message async for message in stream]
        assert isinstance(response, Response)  # a run without an answer raises
        return response

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        """Answer messages, and yield the messages of the run; the last item is the response.

        Leaving the iteration, or cancelling the token, cancels the run and its workers' calls.

        Args:
            messages: all messages since the last turn. The question is the user's last message, in this turn
                or before; without a user's message, it is the last message.
            cancellation_token: cancels the run.

        Raises:
            QueryError: there is no message since the last answer.
            RunFailed: there is no answer; `result` is the run's result.
            PodiumError: see `podium.Conductor.run`.
        """
        async with aclosing(self.turn(messages, cancellation_token)) as happened:
            async for message in happened:
                yield message

    def turn(
        self,
        messages: Sequence[BaseChatMessage],
        cancellation_token: CancellationToken,
        watcher: RunWatcher = _NOBODY,
    ) -> AsyncGenerator[Inner | Response, None]:
        """Answer messages like `on_messages_stream`, with a watcher, which may delay calls of workers."""

        async def turn(emit: _Emit) -> None:
            def tell(message: Inner | Response) -> None:
                watcher.tell(message)
                emit(message)

            cancelled_by(cancellation_token)
            said = self._decision(messages)
            if said is None:
                await self._answer(to_context(messages), tell, watcher)
            elif problem := await self._decided(said):
                tell(Response(chat_message=await self._question(self._waiting, problem)))
            else:
                await self._continue(tell, watcher)

        return events_of(turn)

    async def _answer(self, said: list[LLMMessage], tell: _Emit, watcher: RunWatcher) -> None:
        query = from_autogen(with_question_last([*await self._context.get_messages(), *said], self.name))
        if not query or query[-1].role == "assistant":
            raise QueryError(
                f"agent {self.name!r} got no message since its last answer: give it a task; in a "
                "team, let another agent speak in between, or end the team with max_turns"
            )
        run_id = None if self._run_id is None else run_id_in(self.conductor, self._run_id, query)
        resets = self._resets
        try:
            result = await self._run(query, {"run_id": run_id}, tell, watcher)
            if result is not None:
                said = [*said, AssistantMessage(content=text_answer(result), source=self.name)]
        finally:
            if resets == self._resets:  # after a reset, this turn is forgotten, too
                for message in said:
                    await self._context.add_message(message)

    async def _continue(self, tell: _Emit, watcher: RunWatcher) -> None:
        """Continue the run on which the user has decided."""
        journal = self.conductor.journal
        assert journal is not None  # the run waits there
        run_id, resets = self._waiting, self._resets
        query = await conversation_of(self.conductor, run_id)
        events = [entry.event for entry in await journal.read(run_id)]
        spent = fold(events, await journal.nested(run_id)).result().usage
        result = await self._run(query, {"run_id": run_id}, tell, watcher, spent)
        if result is not None and resets == self._resets:
            said = AssistantMessage(content=text_answer(result), source=self.name)
            await self._context.add_message(said)

    async def _run(
        self,
        query: Sequence[Message],
        options: RunOptions,
        tell: _Emit,
        watcher: RunWatcher,
        spent: Usage = _NOTHING,
    ) -> Result | None:
        """Run a query and send its answer; return the result, or `None` if the run waits for the user.

        Messages of earlier turns have the tokens that were `spent`.
        """

        def hear(event: Event) -> None:
            watcher.hear(event)
            run_messages.hear(event)

        run_messages = RunMessages(
            self.name,
            self.conductor,
            tell,
            watcher.ready,
            plans=self._show_steps,
            chunks=self._model_client_stream,
        )
        options["middleware"] = run_messages.middleware
        run = RecordedRun(
            self.conductor,
            query,
            options,
            on_event=hear,
            session=self._session,
            refresh=self._partial == "raise",
        )
        result = await run.run()
        if result.status != "waiting" or self.conductor.journal is None:
            self._waiting = ""
            run_messages.answer(answered(result, partial=self._partial), None, spent)
            return result
        self._waiting = result.run_id
        run_messages.answer(result, await self._question(result.run_id, ""), spent)
        return None

    def _decision(self, messages: Sequence[BaseChatMessage]) -> str | None:
        """Return what the user says about the run that waits; `None` if the messages are a task.

        Only a handoff is a decision: the task of an `AgentTool`, which a model writes, is a text of the user.
        """
        last = messages[-1] if messages else None
        is_own = isinstance(last, HandoffMessage) and last.source == USER and last.target == self.name
        return last.to_text() if self._waiting and last is not None and is_own else None

    async def _decided(self, said: str) -> str:
        """Record what the user wrote; return the beginning of the next question, or an empty text."""
        for asked in await self._open(self._waiting):
            try:
                await record_decision(self.conductor, asked, said, by=_BY)
            except (ValueError, QueryError) as error:
                return f"{error}\n"
        return "And next:\n" if await self._open(self._waiting) else ""

    async def _open(self, run_id: str) -> list[ApprovalAsked]:
        """Return the first approval or question that the run waits for; empty if it is late."""
        return [each for each in await waiting_of(self.conductor, run_id) if not each.is_late][:1]

    async def _question(self, run_id: str, before: str) -> HandoffMessage:
        """Return the question to the user: the first of what the run waits for."""
        names = self.conductor.pool.names
        text = "\n".join(asked_text(each, names) for each in await self._open(run_id))
        place = {"podium_run_id": run_id, "podium_status": "waiting"}
        return HandoffMessage(content=f"{before}{text}", source=self.name, target=USER, metadata=place)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget the conversation."""
        del cancellation_token
        self._resets += 1
        self._session = self._run_id or uuid4().hex
        self._waiting = ""
        await self._context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """Return the memory as plain data. Workers keep no memory between steps."""
        context = await self._context.save_state()
        state = ConductorAgentState(model_context=context, session=self._session, waiting=self._waiting)
        return state.model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Replace the memory by the result of `save_state`.

        Raises:
            ValueError: the state is invalid.
        """
        loaded = ConductorAgentState.model_validate(state)
        self._resets += 1
        self._session = loaded.session or uuid4().hex
        self._waiting = loaded.waiting
        await self._context.load_state(loaded.model_context)

    async def close(self) -> None:
        """Close the workers."""
        for worker in _workers_of(self.conductor):
            # AutoGen's teams have nothing to close; the owner of a model client closes it.
            if isinstance(worker, AgentWorker) and isinstance(worker.agent, ChatAgent):
                await worker.agent.close()


def _workers_of(conductor: Conductor) -> Iterator[Worker]:
    for worker in conductor.pool:
        yield from _workers_of(worker) if isinstance(worker, Conductor) else (worker,)


class RunMessages:
    """Writes a run as it happens: messages inside its workers, outputs of its steps, its answer.

    A message has the tokens of the model that wrote it. The answer has all other tokens of the run. So the
    tokens of all messages add up to the usage of the run.
    """

    def __init__(
        self,
        name: str,
        conductor: Conductor,
        emit: _Emit,
        ready: Callable[[], Awaitable[None]],
        *,
        plans: bool,
        chunks: bool,
    ) -> None:
        self._inner: list[Inner] = []
        self._name = name
        self._emit = emit
        self._ready = ready
        self._plans = plans
        self._chunks = chunks
        self._pool = conductor.pool
        self._conductors = {worker.card.name for worker in self._pool if isinstance(worker, Conductor)}
        self._run_id = ""
        self._seen: dict[str, Usage] = {}
        """The usage on each sent message, by the message's id."""
        self._maps = Maps()
        self._workers: dict[tuple[int, int], str] = {}
        """The worker of each step, by round and step."""
        self._spoken: set[tuple[int, int]] = set()
        """The steps whose messages are sent from inside their agent."""

    async def middleware(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker when it is time, and send the messages inside an agent."""
        await self._ready()
        caller = request.caller
        if caller is not None and not self._chunks:
            request = replace(request, stream=False)
        if isinstance(worker, AgentWorker) and caller is not None:
            if caller.run_id == self._run_id:
                self._spoken.add((caller.round, caller.step))
            place = _step_metadata(caller, caller.path)
            call = worker.call_listened(request, lambda inner: self._tell(inner, place))
        else:
            call = worker.call(request)
        async with aclosing(call) as pieces:
            async for piece in pieces:
                yield piece

    def hear(self, event: Event) -> None:
        """Handle an event of the run; events of nested runs are ignored, as their agents send messages."""
        self._run_id = self._run_id or event.run_id  # the first event belongs to the outer run
        if event.run_id != self._run_id:
            return
        self._maps.take(event)
        match event:
            case PlanReady(plan=plan) if self._plans and plan.steps:
                self._think("\n".join(plan_lines(plan, self._pool.names)))
            case StepStarted():
                self._workers[event.round, event.step] = event.worker
            case StepDelta() if self._chunks and (event.round, event.step) not in self._spoken:
                who = self._workers[event.round, event.step]
                chunk = ModelClientStreamingChunkEvent(content=event.text, source=who)
                self._tell(chunk, _step_metadata(event, self._maps.path(event)))
            case StepEnded():
                self._ended(event)
            case _:
                pass

    def answer(self, result: Result, question: HandoffMessage | None, spent: Usage) -> None:
        """Send the response: the answer, or the question to the user."""
        last = answer_outcome(result.rounds)
        if question is None and self._chunks and last is not None and (lack := lack_after(result)):
            place = Caller(run_id=result.run_id, round=last.round, step=last.step, attempt=last.attempts)
            chunk = ModelClientStreamingChunkEvent(content=lack, source=last.worker)
            self._tell(chunk, _step_metadata(place, ""))
        left = result.usage.beyond(spent).beyond(Usage.total(self._seen.values()))
        told: BaseChatMessage = question or TextMessage(content=text_answer(result), source=self._name)
        told.models_usage = write_usage(left)
        told.metadata |= message_metadata(result)
        self._emit(Response(chat_message=told, inner_messages=self._inner))

    def _ended(self, event: StepEnded) -> None:
        outcome = event.outcome
        if outcome.status == "failed" and self._plans and outcome.problem is not None:
            self._think(f"Step {outcome.name} ({outcome.worker}) failed: {outcome.problem.message}")
        if outcome.status != "ok" or (outcome.round, outcome.step) in self._spoken:
            return
        told = TextMessage(content=outcome.text, source=outcome.worker)
        # The tokens of a nested conductor are on its agents' messages, if it has agents.
        if outcome.usage.total_tokens and outcome.worker not in self._conductors:
            told.models_usage = write_usage(outcome.usage)
        self._tell(told, _step_metadata(event, outcome.path))

    def _think(self, text: str) -> None:
        self._tell(ThoughtEvent(content=text, source=self._name), {"podium_run_id": self._run_id})

    def _tell(self, inner: Inner, place: dict[str, str]) -> None:
        told = inner.model_copy(update={"metadata": place | inner.metadata})
        if not isinstance(told, ModelClientStreamingChunkEvent):
            self._inner.append(told)
            if (used := read_usage(told.models_usage)) is not None:
                self._seen[told.id] = used
        self._emit(told)


def _step_metadata(of: Caller | StepDelta | StepEnded, path: str) -> dict[str, str]:
    """Return the metadata that names the step of a message; `path` is its name in maps and blocks."""
    own = {"podium_path": path} if path else {}
    return own | {
        "podium_run_id": of.run_id,
        "podium_round": str(of.round),
        "podium_step": str(of.step),
        "podium_attempt": str(of.attempt),
    }
