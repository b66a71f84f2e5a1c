"""A conductor as an AutoGen agent: alone, in a team, or in another conductor's pool."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol, Unpack
from uuid import uuid4

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import ChatAgent, Response, Team
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, TextMessage
from autogen_agentchat.state import BaseState
from autogen_core import CancellationToken
from autogen_core.model_context import ChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, ChatCompletionClient, LLMMessage

from autogen_podium.cancellation import cancelled_by
from autogen_podium.conductor_options import ConductorOptions, conductor_of
from autogen_podium.events import RunMessages
from autogen_podium.messages import from_autogen, to_context, with_question_last
from autogen_podium.workers.agent import AgentWorker, Inner
from autogen_podium.workers.nested import NestedWorker
from autogen_podium.workers.wrap import Participant, as_planner, as_worker
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import QueryError
from podium.hosts import ConductorFace, RecordedRun
from podium.hosts.results import text_answer
from podium.planners import Planner
from podium.run import RunOptions
from podium.types import Completion, Event
from podium.workers import CallMiddleware, Card, Request, Worker


class RunWatcher(Protocol):
    """Watches a run, and may delay its next calls."""

    def tell(self, message: Inner | Response) -> None:
        """Handle a message, before the reader of the stream gets it."""

    def hear(self, event: Event) -> None:
        """Handle an event of the run, or of a nested run."""

    async def ready(self) -> None:
        """Return when the next worker may be called."""


class ConductorAgentState(BaseState):
    """The memory of a `ConductorAgent`."""

    model_context: Mapping[str, Any]
    session: str = ""
    """The id by which the runs of the agent are found in a journal."""
    type: Literal["ConductorAgentState"] = "ConductorAgentState"


@ConductorFace.register
class ConductorAgent(BaseChatAgent):
    """Plans a task and has participants execute the steps.

    The worker of a step is shown the question, the steps on its access list and its subtask, and nothing
    else. Therefore an agent that is a participant is reset before each step, and executes one step at a time.
    Steps that do not depend on each other run in parallel. Messages inside the participants are streamed; the
    `metadata` of each message name the run and the step. The conductor agent remembers the conversation
    between turns. Turns may overlap: a turn sees the messages from before its start. With a journal, a task
    that is given again continues its run if that run waits, was interrupted, or failed after an action.

    Args:
        name: the agent's name, an identifier.
        participants: agents, teams, tools, model clients, and workers of Podium, which execute the steps; or
            a `podium.Conductor`.
        model_client: writes the plans: a model client, or a planner or worker of Podium. With `None`, rules
            write them, without a model.
        description: the description for other agents and teams.
        model_context: the memory between turns; `None` keeps all messages.
        emit_plan_events: whether plans and failed steps are sent as `ThoughtEvent`s.
        model_client_stream: whether the participants' text is streamed in chunks.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, ….

    Raises:
        ConfigError: a participant or an option is invalid.
    """

    def __init__(  # noqa: PLR0913 - the signature of AutoGen's agents
        self,
        name: str,
        participants: Sequence[Participant] | Conductor,
        model_client: ChatCompletionClient | Planner | Worker | None = None,
        *,
        description: str = "Plans a task and has a team carry it out.",
        model_context: ChatCompletionContext | None = None,
        emit_plan_events: bool = False,
        model_client_stream: bool = False,
        **options: Unpack[ConductorOptions],
    ) -> None:
        super().__init__(name, description)
        self._conductor = conductor_of(
            participants,
            model_client,
            card=Card(name=name, description=description),
            as_worker=as_worker,
            as_planner=as_planner,
            options=options,
            face=type(self).__name__,
        )
        self._context = model_context or UnboundedChatCompletionContext()
        self._emit_plan_events = emit_plan_events
        self._model_client_stream = model_client_stream
        self._resets = 0
        self._session = uuid4().hex

    @property
    def conductor(self) -> Conductor:
        """The conductor that plans and runs each task."""
        return self._conductor

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The type of the answers."""
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer messages; see `on_messages_stream`."""
        response = None
        async with aclosing(self.on_messages_stream(messages, cancellation_token)) as stream:
            async for message in stream:
                response = message
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
        watcher: RunWatcher | None = None,
    ) -> AsyncGenerator[Inner | Response, None]:
        """Answer messages like `on_messages_stream`, with a watcher.

        Args:
            messages: all messages since the last turn.
            cancellation_token: cancels the run.
            watcher: gets each message, and may delay calls of workers; `None` delays none.
        """

        async def turn(emit: Callable[[Inner | Response], None]) -> None:
            cancelled_by(cancellation_token)
            await self._turn(to_context(messages), emit, watcher)

        return events_of(turn)

    async def _turn(
        self, said: list[LLMMessage], emit: Callable[[Inner | Response], None], watcher: RunWatcher | None
    ) -> None:
        def tell(message: Inner | Response) -> None:
            if watcher is not None:
                watcher.tell(message)
            emit(message)

        def hear(event: Event) -> None:
            if watcher is not None:
                watcher.hear(event)
            run_messages.hear(event)

        run_messages = RunMessages(
            self.name, self.conductor, tell, plans=self._emit_plan_events, chunks=self._model_client_stream
        )
        query = from_autogen(with_question_last([*await self._context.get_messages(), *said], self.name))
        if not query or query[-1].role == "assistant":
            raise QueryError(
                f"agent {self.name!r} got no message since its last answer: give it a task; in a "
                "team, let another agent speak in between, or end the team with max_turns"
            )
        resets = self._resets
        try:
            call: CallMiddleware = run_messages.middleware
            options = RunOptions(middleware=call if watcher is None else _when_ready(call, watcher))
            result = await RecordedRun(
                self.conductor, query, options, on_event=hear, session=self._session
            ).run()
            run_messages.answer(result)
            said = [*said, AssistantMessage(content=text_answer(result), source=self.name)]
        finally:
            if resets == self._resets:  # after a reset, this turn is forgotten, too
                for message in said:
                    await self._context.add_message(message)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget the conversation."""
        del cancellation_token
        self._resets += 1
        self._session = uuid4().hex
        await self._context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """Return the memory as plain data. Participants keep no memory between steps."""
        context = await self._context.save_state()
        return ConductorAgentState(model_context=context, session=self._session).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Replace the memory by the result of `save_state`.

        Raises:
            ValueError: the state is invalid.
        """
        loaded = ConductorAgentState.model_validate(state)
        self._resets += 1
        self._session = loaded.session or uuid4().hex
        await self._context.load_state(loaded.model_context)

    async def close(self) -> None:
        """Close the participants."""
        workers = self.conductor.pool
        agents: list[Any] = [worker.agent for worker in workers if isinstance(worker, AgentWorker)]
        nested = [worker.face for worker in workers if isinstance(worker, NestedWorker)]
        for agent in (*agents, *nested):
            # AutoGen's teams have nothing to close; the owner of a model client closes it.
            if isinstance(agent, ChatAgent | Team) and hasattr(agent, "close"):
                await agent.close()


def _when_ready(call: CallMiddleware, watcher: RunWatcher) -> CallMiddleware:
    """Return a middleware that calls a worker when the watcher allows it."""

    async def wait_and_call(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        await watcher.ready()
        async with aclosing(call(worker, request)) as pieces:
            async for piece in pieces:
                yield piece

    return wait_and_call
