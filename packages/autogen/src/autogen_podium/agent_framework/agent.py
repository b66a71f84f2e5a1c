"""A conductor as an agent of Agent Framework's: alone, with sessions, in a workflow.

It owns how its run is told as a response, and what of a session it reads and writes.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Unpack, cast

from agent_framework import (
    AgentMiddlewareLayer,
    AgentResponse,
    AgentResponseUpdate,
    AgentRunInputs,
    AgentSession,
    BaseAgent,
    ContextProvider,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    MiddlewareTypes,
    ResponseStream,
    SessionContext,
    SupportsChatGetResponse,
    normalize_messages,
)

from autogen_podium.agent_framework.messages import from_framework, write_usage
from autogen_podium.agent_framework.updates import Updates
from autogen_podium.agent_framework.workers import Participant, as_planner, as_worker
from autogen_podium.terms import Terms, answered, facts_of, plan_text
from podium.aio import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError
from podium.planners import Planner
from podium.types import Message as PodiumMessage, Result
from podium.workers import Card, Worker

_Response = AgentResponse[Any]
_Emit = Callable[[AgentResponseUpdate | _Response], None]


class _Conducted(BaseAgent):
    """What the layers of an agent are laid around."""

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
            messages: what is asked.
            stream: whether the answer is wanted as it comes. Updates are text of the answer,
                and with `emit_steps` what the other steps came to, as reasoning under its
                worker's name.
            session: remembers the conversation; `None` remembers nothing.
            others: what of it tools or options say must be empty: participants have their own.

        Raises:
            ConfigError: it says more.
            QueryError: nothing was asked.
            RunFailed: the run came to no answer; `result` is what it came to.
        """
        if others.get("tools") or others.get("options"):
            raise ConfigError(
                "a conductor takes no tools or options per run: its participants have their own"
            )
        if not stream:
            return self._whole(messages, session)
        ended: list[_Response] = []
        return ResponseStream(self._updates(messages, session, ended), finalizer=lambda _: ended[-1])

    async def _whole(self, messages: AgentRunInputs | None, session: AgentSession | None) -> _Response:
        async with aclosing(self._answer(messages, session, stream=False)) as happened:
            response = await anext(happened)
        assert isinstance(response, AgentResponse)  # nothing else is told of a run that nobody reads along
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
            query = from_framework(context.get_messages(include_input=True), self.name)
            if not query or query[-1].role == "assistant":
                raise QueryError(f"agent {self.name!r} was asked nothing since its last answer")
            system = tuple(PodiumMessage("system", told) for told in context.instructions)
            updates = Updates(self, emit, steps=self.emit_steps) if stream else None
            hear = None if updates is None else updates.hear
            result = answered(await self.conductor.run((*system, *query), on_event=hear))
            if updates is not None:
                updates.end(result)
            response = self._response(result)
            context._response = response  # noqa: SLF001 - where providers look for it
            await self._run_after_providers(session=held, context=context)
            emit(response)

        return events_of(answering)

    async def _context(
        self, asked: list[Message], session: AgentSession | None
    ) -> tuple[SessionContext, AgentSession | None]:
        """Return what is asked with what providers add to it, and the session they keep it in."""
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
                "a context provider gives tools, which a conductor takes none of: give it to participants"
            )
        return context, held

    def _response(self, result: Result) -> _Response:
        plan = result.plans[-1] if result.plans else None
        told = "" if plan is None else plan_text(plan, result.workers)
        facts = {"podium": {**facts_of(result), "plan": told}}
        said = Message("assistant", [result.answer], author_name=self.name, message_id=result.run_id)
        return AgentResponse(
            messages=[said],
            response_id=result.run_id,
            agent_id=self.id,
            finish_reason="length" if result.problem is not None and result.problem.code == "cut" else "stop",
            usage_details=write_usage(result.usage),
            additional_properties=facts,
            raw_representation=result,
        )


class ConductorAgent(AgentMiddlewareLayer, _Conducted):  # type: ignore[misc]  # its layers differ in `run` too
    """Has a task planned, and its steps carried out by agents, chat clients and workers of Podium's.

    Every step's worker is shown the question, the outputs on its access list and its subtask,
    and nothing else: agents are run without a session, side by side where steps do not need
    each other. With a session the conductor itself remembers the conversation.

    Args:
        participants: who does the steps; or a whole `podium.Conductor`.
        client: who plans: a chat client, or a planner or worker of Podium's; `None` plans by
            rules, without a model.
        id: the agent's id; `None` makes one.
        name: the agent's name.
        description: what others are told of it.
        context_providers: add to what is asked, and keep it; `None` means none but, with a
            session, its history.
        middleware: of agents; around each run.
        emit_steps: whether a stream tells what steps came to.
        terms: limits, a policy, a journal, …: what `podium.Conductor` takes.

    Raises:
        ConfigError: a participant or a term is wrong.
    """

    def __init__(  # noqa: PLR0913 - as agents of Agent Framework's have them
        self,
        participants: Sequence[Participant] | Conductor,
        client: SupportsChatGetResponse[Any] | Planner | Worker | None = None,
        *,
        id: str | None = None,  # noqa: A002 - what Agent Framework calls it
        name: str = "conductor",
        description: str = "Plans a task and has a team carry it out.",
        context_providers: Sequence[ContextProvider] | None = None,
        middleware: Sequence[MiddlewareTypes] | None = None,
        emit_steps: bool = False,
        **terms: Unpack[Terms],
    ) -> None:
        super().__init__(
            id=id,
            name=name,
            description=description,
            context_providers=context_providers,
            middleware=middleware,
        )
        self.emit_steps = emit_steps
        if isinstance(participants, Conductor):
            if client is not None or terms:
                raise ConfigError(
                    "beside a podium.Conductor a client, limits or a policy do not count: it has its own"
                )
            self.conductor = participants
            return
        workers = [as_worker(participant) for participant in participants]
        card = Card(name=name, description=description)
        self.conductor = Conductor(as_planner(client), workers, card=card, **cast("Any", terms))
