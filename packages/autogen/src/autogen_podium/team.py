"""A conductor as a team of AutoGen's.

It owns when a team's run stops, and why. What happens in between is its agent's.
"""

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self, Unpack

import anyio
from autogen_agentchat.base import Response, TaskResult, Team, TerminationCondition
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    ModelClientStreamingChunkEvent,
    TextMessage,
)
from autogen_agentchat.state import BaseState
from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.models import ChatCompletionClient
from pydantic import Field

from autogen_podium.agent import ConductorAgent, ConductorAgentConfig
from autogen_podium.conducting import load_participants, load_planner, load_terms
from autogen_podium.messages import USER
from autogen_podium.terms import Terms
from autogen_podium.workers.agent import Inner
from autogen_podium.workers.wrap import Participant
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.planners import Planner
from podium.workers import Worker

ANSWERED = "The conductor has answered."
"""Why a run stopped that came to its answer."""


class ConductorTeamConfig(ConductorAgentConfig):
    """How a `ConductorTeam` is made."""

    termination_condition: ComponentModel | None = None
    max_turns: int | None = None


class ConductorTeamState(BaseState):
    """What a `ConductorTeam` remembers."""

    agent_state: Mapping[str, Any] = Field(default_factory=dict)
    type: str = Field(default="ConductorTeamState")


class ConductorTeam(Team, Component[ConductorTeamConfig]):
    """Has a task planned, and its steps carried out by the participants.

    A run ends with the answer, or before it when the termination condition says so: what is
    under way is cancelled then. The condition is asked about every message, as it comes.

    Args:
        participants: who does the steps: as for `ConductorAgent`, as all that is not told here.
        model_client: who plans.
        name: the team's name, an identifier.
        termination_condition: ends a run before its answer; `None` never does.
        max_turns: most steps that are started in one run; `None` leaves it to the limits.

    Raises:
        ConfigError: a participant or a term is wrong.
    """

    component_config_schema = ConductorTeamConfig
    component_provider_override = "autogen_podium.ConductorTeam"

    def __init__(  # noqa: PLR0913 - as teams of AutoGen's have them
        self,
        participants: Sequence[Participant] | Conductor,
        model_client: ChatCompletionClient | Planner | Worker | None = None,
        *,
        name: str = "ConductorTeam",
        description: str = "Plans a task and carries it out.",
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        emit_plan_events: bool = False,
        model_client_stream: bool = False,
        **terms: Unpack[Terms],
    ) -> None:
        self._agent = ConductorAgent(
            name,
            participants,
            model_client,
            description=description,
            emit_plan_events=emit_plan_events,
            model_client_stream=model_client_stream,
            **_at_most(max_turns, terms, participants),
        )
        self._termination_condition = termination_condition
        self._max_turns = max_turns
        self._running = False

    @property
    def name(self) -> str:
        """The team's name."""
        return self._agent.name

    @property
    def description(self) -> str:
        """What other teams are told of this one."""
        return self._agent.description

    @property
    def conductor(self) -> Conductor:
        """Who plans and directs."""
        return self._agent.conductor

    async def run(
        self,
        *,
        task: str | BaseChatMessage | Sequence[BaseChatMessage] | None = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> TaskResult:
        """Carry out a task; see `run_stream`."""
        result = None
        stream = self.run_stream(
            task=task, cancellation_token=cancellation_token, output_task_messages=output_task_messages
        )
        async with aclosing(stream):
            async for message in stream:
                result = message
        assert isinstance(result, TaskResult)  # a run that ends otherwise raises
        return result

    async def run_stream(
        self,
        *,
        task: str | BaseChatMessage | Sequence[BaseChatMessage] | None = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | TaskResult, None]:
        """Carry out a task, and yield what happens; the last item is the result.

        Args:
            task: what is asked; `None` goes on with what was said last, if nobody answered it.
            cancellation_token: cancels the run; `None` makes one.
            output_task_messages: whether the task is among the messages.

        Raises:
            ValueError: the team is running, or the task is no messages.
            QueryError: there is no task.
            RunFailed: the run came to no answer.
        """
        asked = _task_messages(task)
        if self._running:
            raise ValueError("The team is already running, it cannot run again until it is stopped.")
        self._running = True
        said: list[BaseAgentEvent | BaseChatMessage] = []
        try:
            if output_task_messages:
                for message in asked:
                    said.append(message)
                    yield message
            judge = _Judge(self._termination_condition)
            stop = await judge.begin(asked)
            stream = self._agent.turn(asked, cancellation_token or CancellationToken(), judge)
            async with aclosing(stream):
                while stop is None:
                    item = await anext(stream)
                    told = item.chat_message if isinstance(item, Response) else item
                    yield told
                    if not isinstance(told, ModelClientStreamingChunkEvent):
                        said.append(told)
                        stop = await judge.stops(told)
                    if isinstance(item, Response):
                        stop = stop or self._why(item)
            yield TaskResult(messages=said, stop_reason=stop)
        finally:
            self._running = False
            if self._termination_condition is not None:
                await self._termination_condition.reset()

    def _why(self, response: Response) -> str:
        facts = response.chat_message.metadata
        if self._max_turns is not None and facts.get("podium_problem") == "limit":
            return f"Maximum number of turns {self._max_turns} reached."
        return ANSWERED

    async def reset(self) -> None:
        """Forget what was said.

        Raises:
            RuntimeError: the team is running.
        """
        if self._running:
            raise RuntimeError("The team is currently running. It must be stopped before it can be reset.")
        await self._agent.on_reset(CancellationToken())
        if self._termination_condition is not None:
            await self._termination_condition.reset()

    async def pause(self) -> None:
        """Start no further step until `resume`; steps under way go on, their agents being told."""
        await self._agent.on_pause(CancellationToken())

    async def resume(self) -> None:
        """Go on after a pause."""
        await self._agent.on_resume(CancellationToken())

    async def save_state(self) -> Mapping[str, Any]:
        """Return what the team remembers, as plain data."""
        return ConductorTeamState(agent_state=await self._agent.save_state()).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Remember what `save_state` returned, and nothing else."""
        await self._agent.load_state(ConductorTeamState.model_validate(state).agent_state)

    def _to_config(self) -> ConductorTeamConfig:
        condition = self._termination_condition
        return ConductorTeamConfig(
            **self._agent._to_config().model_dump(),  # noqa: SLF001 - what a component is written with
            termination_condition=None if condition is None else condition.dump_component(),
            max_turns=self._max_turns,
        )

    @classmethod
    def _from_config(cls, config: ConductorTeamConfig) -> Self:
        condition = config.termination_condition
        return cls(
            load_participants(config),
            load_planner(config),
            name=config.name,
            description=config.description,
            termination_condition=None
            if condition is None
            else TerminationCondition.load_component(condition),
            max_turns=config.max_turns,
            emit_plan_events=config.emit_plan_events,
            model_client_stream=config.model_client_stream,
            **load_terms(config),
        )


class _Judge:
    """Asks a termination condition about each message, in order, before another worker is called."""

    def __init__(self, condition: TerminationCondition | None) -> None:
        self._condition = condition
        self._told: deque[BaseAgentEvent | BaseChatMessage] = deque()
        self._one = anyio.Lock()
        self._stop: tuple[str, str] | None = None
        """The message at which the run ends, and why."""

    async def begin(self, task: Sequence[BaseChatMessage]) -> str | None:
        """Return why the run ends with its task; `None` where it does not."""
        stop = await self._condition(task) if self._condition is not None and task else None
        return None if stop is None else stop.content

    def tell(self, message: Inner | Response) -> None:
        """Take a message that was told."""
        message = message.chat_message if isinstance(message, Response) else message
        if not isinstance(message, ModelClientStreamingChunkEvent):
            self._told.append(message)

    async def ready(self) -> None:
        """Return when all that was told leaves the run going on; else wait until it is cancelled."""
        await self._judge()
        if self._stop is not None:
            await anyio.sleep_forever()

    async def stops(self, message: BaseAgentEvent | BaseChatMessage) -> str | None:
        """Return why the run ends with this message; `None` where it does not."""
        await self._judge()
        return None if self._stop is None or self._stop[0] != message.id else self._stop[1]

    async def _judge(self) -> None:
        async with self._one:
            while self._told and self._stop is None and self._condition is not None:
                message = self._told.popleft()
                if (stop := await self._condition([message])) is not None:
                    self._stop = message.id, stop.content


def _at_most(max_turns: int | None, terms: Terms, participants: object) -> Terms:
    """Return the terms with no more steps in a run than there may be turns."""
    if max_turns is None:
        return terms
    if isinstance(participants, Conductor):
        raise ConfigError("max_turns beside a podium.Conductor does not count: set its Limits.steps")
    limits = terms.get("limits") or Limits()
    return {**terms, "limits": replace(limits, steps=min(limits.steps, max_turns))}


def _task_messages(task: str | BaseChatMessage | Sequence[BaseChatMessage] | None) -> list[BaseChatMessage]:
    if task is None:
        return []
    if isinstance(task, str):
        return [TextMessage(content=task, source=USER)]
    if isinstance(task, BaseChatMessage):
        return [task]
    if not task:
        raise ValueError("Task list cannot be empty.")
    if any(not isinstance(message, BaseChatMessage) for message in task):
        raise ValueError("All messages in task list must be valid BaseChatMessage types")
    return list(task)
