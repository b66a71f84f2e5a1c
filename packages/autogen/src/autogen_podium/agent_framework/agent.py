"""A conductor as an agent of Agent Framework: alone, with sessions, in a workflow."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, Unpack, cast
from uuid import uuid4

from agent_framework import (
    AgentMiddlewareLayer,
    AgentResponse,
    AgentResponseUpdate,
    AgentRunInputs,
    AgentSession,
    BaseAgent,
    ContextProvider,
    FunctionInvocationContext,
    FunctionTool,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    MiddlewareTypes,
    RawAgent,
    ResponseStream,
    SessionContext,
    SupportsChatGetResponse,
    normalize_messages,
)

from autogen_podium.agent_framework.events import RunUpdates
from autogen_podium.agent_framework.messages import from_framework, write_result, write_usage
from autogen_podium.agent_framework.wrap import Participant, as_planner, as_worker
from autogen_podium.conductor_options import ConductorOptions, conductor_of
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError, PodiumError, QueryError, RunWaiting
from podium.hosts import ChatAnswer, ChatCall, ConductorFace
from podium.planners import Planner
from podium.types import Message as PodiumMessage
from podium.workers import Card, Worker

_Response = AgentResponse[Any]
_Emit = Callable[[AgentResponseUpdate | _Response], None]
_CALLER: Final = ContextVar[str | None]("_CALLER", default=None)
"""The session of the agent that calls this agent as a tool; the tool makes a session for each call."""


class _Conducted(BaseAgent):
    """The innermost part of the agent, which the layers of middleware call."""

    conductor: Conductor
    emit_steps: bool

    def run(
        self,
        messages: AgentRunInputs | None = None,
        *,
        stream: bool = False,
        session: AgentSession | None = None,
        **others: Any,
    ) -> Awaitable[_Response] | ResponseStream[AgentResponseUpdate, _Response]:
        """Answer; the response's `raw_representation` is the `podium.Result`.

        Args:
            messages: the question, or a conversation.
            stream: whether to return a stream. Its updates are chunks of the answer. With `emit_steps`, there
                are also updates with the outputs of the steps, as reasoning content with the names of the
                workers.
            session: stores the conversation; `None` stores nothing.
            others: `tools` and `options` must be empty; other arguments are ignored.

        Raises:
            ConfigError: there are tools or options.
            QueryError: there is no question.
            RunFailed: there is no answer; `result` is the run's result.
        """
        if others.get("tools") or others.get("options"):
            raise ConfigError(
                "a conductor does not accept tools or options per run: its participants have their own"
            )
        if not stream:
            return self._whole(messages, session)
        ended: list[_Response] = []
        return ResponseStream(self._updates(messages, session, ended), finalizer=lambda _: ended[-1])

    def as_tool(self, **options: Any) -> FunctionTool:
        """Return this agent as a tool, like `BaseAgent.as_tool`.

        The framework tells a model only that a function failed. If the run waits, or failed after it had
        begun an action, the tool returns the error's text, which says so. A question that is asked again in
        the same session continues that run, if there is a journal.
        """
        tool = super().as_tool(**options)
        ask, own = cast("Any", tool.func), uuid4().hex

        async def asked(ctx: FunctionInvocationContext, **arguments: Any) -> str:
            place = own if ctx.session is None else ctx.session.session_id
            token = _CALLER.set(f"tool {place}")
            try:
                return str(await ask(ctx, **arguments))
            except PodiumError as error:
                if not (error.actions or isinstance(error, RunWaiting)):
                    raise
                return f"Error: {error}"
            finally:
                _CALLER.reset(token)

        tool.func = asked
        return tool

    def as_mcp_server(self, *, server_name: str | None = None, **options: Any) -> Any:
        """Return an MCP server with this agent as its only tool, like `Agent.as_mcp_server`.

        Args:
            server_name: the server's name; `None` uses the agent's name.
            options: `version`, `instructions`, `lifespan` and further options of the SDK's `Server`.

        Raises:
            ConfigError: version 2 of the MCP SDK, which Agent Framework requires, is not installed.
        """
        try:
            return RawAgent.as_mcp_server(
                cast("Any", self), server_name=server_name or str(self.name), **options
            )
        except ImportError as error:
            told = "as_mcp_server of Agent Framework needs the MCP SDK 2 (mcp>=2.2,<3)"
            raise ConfigError(f"{told}: podium.mcp.make_server serves a conductor with version 1") from error

    def _get_agent_name(self) -> str:
        return str(self.name)

    async def _whole(self, messages: AgentRunInputs | None, session: AgentSession | None) -> _Response:
        async with aclosing(self._answer(messages, session, stream=False)) as happened:
            response = await anext(happened)
        assert isinstance(response, AgentResponse)  # without a stream there are no updates
        return response

    async def _updates(
        self, messages: AgentRunInputs | None, session: AgentSession | None, ended: list[_Response]
    ) -> AsyncGenerator[AgentResponseUpdate, None]:
        async with aclosing(self._answer(messages, session, stream=True)) as happened:
            async for item in happened:
                if isinstance(item, AgentResponse):
                    ended.append(item)
                else:
                    yield item

    def _answer(
        self, messages: AgentRunInputs | None, session: AgentSession | None, *, stream: bool
    ) -> AsyncGenerator[AgentResponseUpdate | _Response, None]:
        async def answering(emit: _Emit) -> None:
            context, held = await self._context(normalize_messages(messages), session)
            conversation = context.get_messages(include_input=True)
            query = from_framework(conversation, self.name)
            if not query or conversation[-1].author_name == self.name:
                raise QueryError(f"agent {self.name!r} got no message since its last answer")
            system = tuple(PodiumMessage("system", text) for text in context.instructions)
            place = _CALLER.get() or (None if session is None else session.session_id)
            call = ChatCall(self.conductor, (*system, *query), session=place)
            answer = await (self._stream(call, emit) if stream else call.run())
            response = self._response(answer)
            context._response = response  # noqa: SLF001 - providers read it there
            await self._run_after_providers(session=held, context=context)
            emit(response)

        return events_of(answering)

    async def _stream(self, call: ChatCall, emit: _Emit) -> ChatAnswer:
        updates = RunUpdates(self, emit, steps=self.emit_steps)
        async with aclosing(call.events(stream=True)) as events:
            async for event, text in events:
                updates.hear(event, text)
        answer = call.answer()
        updates.end(call, answer)
        return answer

    async def _context(
        self, asked: list[Message], session: AgentSession | None
    ) -> tuple[SessionContext, AgentSession | None]:
        """Return the messages, with the messages of context providers, and the session for the providers."""
        loads = [
            one for one in self.context_providers if isinstance(one, HistoryProvider) and one.load_messages
        ]
        if session is not None and not loads:
            self.context_providers.append(InMemoryHistoryProvider())
        held = AgentSession() if session is None and self.context_providers else session
        context = SessionContext(session_id=held.session_id if held else None, input_messages=asked)
        for provider in self.context_providers:
            if held is None or (isinstance(provider, HistoryProvider) and not provider.load_messages):
                continue
            state = held.state.setdefault(provider.source_id, {})
            await provider.before_run(agent=cast("Any", self), session=held, context=context, state=state)
        if context.tools:
            raise ConfigError(
                "a context provider adds tools, but a conductor cannot call them: give it to participants"
            )
        return context, held

    def _response(self, answer: ChatAnswer) -> _Response:
        result = answer.result
        message = Message("assistant", [answer.text], author_name=self.name, message_id=result.run_id)
        return AgentResponse(
            messages=[message],
            response_id=result.run_id,
            agent_id=self.id,
            finish_reason=cast("Any", answer.host_finish_reason),
            usage_details=write_usage(answer.usage),
            additional_properties=write_result(result),
            raw_representation=result,
        )


@ConductorFace.register
class ConductorAgent(AgentMiddlewareLayer, _Conducted):  # type: ignore[misc]  # its layers' `run` differ, too
    """Plans a task and has agents, chat clients and workers of Podium execute the steps.

    The worker of a step is shown the question, the steps on its access list and its subtask, and nothing
    else. Agents are run without a session, in parallel if their steps do not depend on each other. With a
    session, the conductor agent itself remembers the conversation.

    Args:
        participants: execute the steps; or a `podium.Conductor`.
        client: writes the plans: a chat client, or a planner or worker of Podium. With `None`, rules write
            them, without a model.
        id: the agent's id; `None` generates one.
        name: the agent's name.
        description: the description for other agents.
        context_providers: add messages to the conversation and store it; `None` uses only the history of the
            session, if there is one.
        middleware: agent middleware around each run.
        emit_steps: whether a stream has the outputs of the steps.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, ….

    Raises:
        ConfigError: a participant or an option is invalid.
    """

    def __init__(  # noqa: PLR0913 - the signature of Agent Framework's agents
        self,
        participants: Sequence[Participant] | Conductor,
        client: SupportsChatGetResponse[Any] | Planner | Worker | None = None,
        *,
        id: str | None = None,  # noqa: A002 - Agent Framework's name
        name: str = "conductor",
        description: str = "Plans a task and has a team execute it.",
        context_providers: Sequence[ContextProvider] | None = None,
        middleware: Sequence[MiddlewareTypes] | None = None,
        emit_steps: bool = False,
        **options: Unpack[ConductorOptions],
    ) -> None:
        super().__init__(
            id=id,
            name=name,
            description=description,
            context_providers=context_providers,
            middleware=middleware,
        )
        self.emit_steps = emit_steps
        self.conductor = conductor_of(
            participants,
            client,
            card=Card(name=name, description=description),
            as_worker=as_worker,
            as_planner=as_planner,
            options=options,
            face="ConductorAgent",
        )
