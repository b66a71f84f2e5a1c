"""A conductor as an agent of AutoGen's: alone, in any team, inside another conductor.

It owns what the agent remembers between turns, and how its run is told and cancelled. It knows
no team.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self, Unpack

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, TextMessage
from autogen_agentchat.state import BaseState
from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.model_context import ChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, ChatCompletionClient, LLMMessage
from pydantic import Field

from autogen_podium.cancelling import cancelled_by
from autogen_podium.conducting import (
    Conducting,
    ConductingConfig,
    load_participants,
    load_planner,
    load_terms,
)
from autogen_podium.gate import Gate, Watch
from autogen_podium.messages import from_autogen, to_context
from autogen_podium.telling import Telling
from autogen_podium.terms import Terms
from autogen_podium.workers.agent import AgentWorker, Inner
from autogen_podium.workers.nested import NestedWorker
from autogen_podium.workers.wrap import Participant
from podium.aio import events_of
from podium.conductor import Conductor
from podium.errors import QueryError
from podium.planners import Planner
from podium.workers import Worker

_DESCRIPTION = "Plans a task and has a team carry it out."


class ConductorAgentConfig(ConductingConfig):
    """How a `ConductorAgent` is made."""

    name: str
    description: str
    model_context: ComponentModel | None = None
    emit_plan_events: bool = False
    model_client_stream: bool = False


class ConductorAgentState(BaseState):
    """What a `ConductorAgent` remembers."""

    model_context: Mapping[str, Any] = Field(default_factory=dict)
    type: str = Field(default="ConductorAgentState")


class ConductorAgent(BaseChatAgent, Component[ConductorAgentConfig]):
    """Has a task planned, and its steps carried out by others.

    Every step's worker is told the question, the outputs on its access list and its subtask,
    and nothing else: an agent among the participants is reset before each step and does one at
    a time. Steps that do not need each other run side by side. What the participants say
    inside is streamed, with the run and the step in each message's `metadata`.

    The agent remembers the conversation between turns. Turns may overlap; each sees what was
    said before it began.

    Args:
        name: the agent's name, an identifier.
        participants: who does the steps: agents, teams, tools, model clients, workers of
            Podium's; or a whole `podium.Conductor`.
        model_client: who plans: a model client, or a planner or worker of Podium's; `None`
            plans by rules, without a model.
        description: what other agents and teams are told of this one.
        model_context: what is remembered between turns; `None` means all of it.
        emit_plan_events: whether plans, and steps that failed, are told as `ThoughtEvent`s.
        model_client_stream: whether what participants write is told piece by piece.
        terms: limits, a policy, a journal, …: what `podium.Conductor` takes.

    Raises:
        ConfigError: a participant or a term is wrong.
    """

    component_config_schema = ConductorAgentConfig
    component_provider_override = "autogen_podium.ConductorAgent"

    def __init__(  # noqa: PLR0913 - as agents of AutoGen's have them
        self,
        name: str,
        participants: Sequence[Participant] | Conductor,
        model_client: ChatCompletionClient | Planner | Worker | None = None,
        *,
        description: str = _DESCRIPTION,
        model_context: ChatCompletionContext | None = None,
        emit_plan_events: bool = False,
        model_client_stream: bool = False,
        **terms: Unpack[Terms],
    ) -> None:
        super().__init__(name, description)
        self._conducting = Conducting.of(participants, model_client, name, description, terms)
        self._context = model_context or UnboundedChatCompletionContext()
        self._emit_plan_events = emit_plan_events
        self._model_client_stream = model_client_stream
        self._gate = Gate()
        self._resets = 0

    @property
    def conductor(self) -> Conductor:
        """Who plans and directs."""
        return self._conducting.conductor

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The type of its answers."""
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer what is said; see `on_messages_stream`."""
        response = None
        async with aclosing(self.on_messages_stream(messages, cancellation_token)) as stream:
            async for message in stream:
                response = message
        assert isinstance(response, Response)  # a run that ends otherwise raises
        return response

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        """Answer what is said, and yield what happens meanwhile; the last item is the response.

        Leaving the iteration, or cancelling the token, cancels the run and reaches its workers.

        Args:
            messages: what was said since the last turn; the last of it is the question.
            cancellation_token: cancels the run.

        Raises:
            QueryError: nothing was said since the last answer.
            RunFailed: the run came to no answer; `result` is what it came to.
            PodiumError: as `podium.Conductor.run`.
        """
        async with aclosing(self.turn(messages, cancellation_token)) as happened:
            async for message in happened:
                yield message

    def turn(
        self,
        messages: Sequence[BaseChatMessage],
        cancellation_token: CancellationToken,
        watch: Watch | None = None,
    ) -> AsyncGenerator[Inner | Response, None]:
        """Do as `on_messages_stream`, watched.

        Args:
            messages: what was said since the last turn.
            cancellation_token: cancels the run.
            watch: is told each message, and holds workers back; `None` holds back nobody.
        """

        async def turn(emit: Callable[[Inner | Response], None]) -> None:
            cancelled_by(cancellation_token)
            await self._turn(to_context(messages), emit, watch)

        return events_of(turn)

    async def _turn(
        self, said: list[LLMMessage], emit: Callable[[Inner | Response], None], watch: Watch | None
    ) -> None:
        def tell(message: Inner | Response) -> None:
            if watch is not None:
                watch.tell(message)
            emit(message)

        telling = Telling(
            self.name, self.conductor, tell, plans=self._emit_plan_events, chunks=self._model_client_stream
        )
        query = from_autogen([*await self._context.get_messages(), *said])
        if not query or query[-1].role == "assistant":
            raise QueryError(
                f"agent {self.name!r} was asked nothing since its last answer: give it a task, or in a "
                "team let somebody else speak in between, or end the team with max_turns"
            )
        resets = self._resets
        try:
            result = await self.conductor.run(
                query, on_event=telling.hear, middleware=self._gate.middleware(telling.middleware, watch)
            )
            telling.answer(result)
            said = [*said, AssistantMessage(content=result.answer, source=self.name)]
        finally:
            if resets == self._resets:  # what was said before a reset is forgotten
                for message in said:
                    await self._context.add_message(message)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget what was said."""
        del cancellation_token
        self._resets += 1
        await self._context.clear()

    async def on_pause(self, cancellation_token: CancellationToken) -> None:
        """Start no further step until it is resumed; steps under way go on, their agents being told.

        The time of a step that waits counts as the time of its attempt (`Limits.attempt_seconds`).
        """
        self._gate.close()
        for agent in self._agents():
            await (agent.on_pause(cancellation_token) if not hasattr(agent, "pause") else agent.pause())

    async def on_resume(self, cancellation_token: CancellationToken) -> None:
        """Go on after a pause."""
        for agent in self._agents():
            await (agent.on_resume(cancellation_token) if not hasattr(agent, "resume") else agent.resume())
        self._gate.open()

    def _agents(self) -> list[Any]:
        return [
            worker.agent for worker in self.conductor.pool if isinstance(worker, AgentWorker | NestedWorker)
        ]

    async def save_state(self) -> Mapping[str, Any]:
        """Return what it remembers, as plain data. Participants remember nothing from step to step."""
        return ConductorAgentState(model_context=await self._context.save_state()).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Remember what `save_state` returned, and nothing else."""
        self._resets += 1
        await self._context.load_state(ConductorAgentState.model_validate(state).model_context)

    async def close(self) -> None:
        """Close what the participants hold open."""
        for agent in self._agents():
            if hasattr(agent, "close"):  # a team has nothing to close
                await agent.close()

    def _to_config(self) -> ConductorAgentConfig:
        return ConductorAgentConfig(
            **self._conducting.to_config().model_dump(),
            name=self.name,
            description=self.description,
            model_context=self._context.dump_component(),
            emit_plan_events=self._emit_plan_events,
            model_client_stream=self._model_client_stream,
        )

    @classmethod
    def _from_config(cls, config: ConductorAgentConfig) -> Self:
        context = config.model_context
        return cls(
            config.name,
            load_participants(config),
            load_planner(config),
            description=config.description,
            model_context=None if context is None else ChatCompletionContext.load_component(context),
            emit_plan_events=config.emit_plan_events,
            model_client_stream=config.model_client_stream,
            **load_terms(config),
        )
