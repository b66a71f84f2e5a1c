"""A conductor as an AutoGen team: a conductor agent with termination conditions."""

import json
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Unpack

import anyio
from autogen_agentchat.base import Response, TaskResult, Team, TerminationCondition
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ThoughtEvent,
)
from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient

from autogen_podium.agent import ConductorAgent, RunWatcher
from autogen_podium.messages import USER, read_usage, write_usage
from autogen_podium.workers.agent import Inner
from autogen_podium.workers.wrap import Participant, conductor_of
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, LimitExceeded, RunFailed, actions_told
from podium.hosts import ConductorFace, Partial
from podium.hosts.chat import actions_in
from podium.hosts.faces import ConductorOptions
from podium.hosts.results import lack_of
from podium.planners import Planner
from podium.types import Action, Event, PlannerEnded, Problem, Result
from podium.types.events import PIECES
from podium.usage import Usage
from podium.workers import Card, Worker

ANSWERED = "The conductor has answered."
"""Stop reason of a run that ended with an answer; for an incomplete answer, `(Not complete: …)` follows."""

WAITS = "The conductor waits for the user."
"""Stop reason of a run whose last message is a handoff to the user."""
_NO_PAUSE = (
    "a conductor has no pause: cancel its run, and give it the same task again, with a run_id and a journal"
)


@ConductorFace.register
class ConductorTeam(Team):
    """Plans a task and has workers execute the steps, with termination conditions.

    A run ends with the answer, or as soon as a message meets the termination condition; then all running
    steps are cancelled. If it waits for a person, it ends with a `HandoffMessage` to `user`, and is continued
    with `run(task=HandoffMessage(source="user", target=team.name, content="yes"))`. `ConductorAgent`
    describes the arguments that are not listed here.

    Args:
        name: the team's name, an identifier.
        termination_condition: ends a run before its answer; `None` never does.
        max_turns: maximum number of started steps per run; with `None`, only the limits apply.

    Raises:
        ConfigError: see `ConductorAgent`.
    """

    def __init__(  # noqa: PLR0913 - the signature of AutoGen's teams
        self,
        conductor: Conductor | None = None,
        *,
        planner: ChatCompletionClient | Planner | Worker | None = None,
        workers: Sequence[Participant] = (),
        name: str = "ConductorTeam",
        description: str = "Plans a task and executes it.",
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        run_id: str | None = None,
        partial: Partial = "return",
        show_steps: bool = False,
        model_client_stream: bool = False,
        **options: Unpack[ConductorOptions],
    ) -> None:
        given = _with_max_turns(max_turns, options, conductor)
        card = Card(name=name, description=description)
        made = conductor_of(conductor, planner, workers, given, face=ConductorTeam, card=card)
        self._agent = ConductorAgent(
            name,
            made,
            description=description,
            run_id=run_id,
            partial=partial,
            show_steps=show_steps,
            model_client_stream=model_client_stream,
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
        """The description for other teams."""
        return self._agent.description

    @property
    def agent(self) -> ConductorAgent:
        """The agent that runs the team's tasks."""
        return self._agent

    @property
    def conductor(self) -> Conductor:
        """The conductor that plans and runs each task."""
        return self._agent.conductor

    async def run(
        self,
        *,
        task: str | BaseChatMessage | Sequence[BaseChatMessage] | None = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> TaskResult:
        """Run a task; see `run_stream`."""
        stream = self.run_stream(
            task=task, cancellation_token=cancellation_token, output_task_messages=output_task_messages
        )
        async with aclosing(stream):
            *_, result = [message async for message in stream]
        assert isinstance(result, TaskResult)  # a run without an answer raises
        return result

    async def run_stream(
        self,
        *,
        task: str | BaseChatMessage | Sequence[BaseChatMessage] | None = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | TaskResult, None]:
        """Run a task, and yield the messages of the run; the last item is the result.

        Args:
            task: the task; `None` continues with the last message if it has no answer yet.
            cancellation_token: cancels the run; `None` creates a token.
            output_task_messages: whether the task is among the messages.

        Raises:
            ValueError: the team is running, or the task is not a message or a list of messages.
            QueryError: there is no task.
            RunFailed: there is no answer.
        """
        asked = _task_messages(task)
        if self._running:
            raise ValueError("The team is already running, it cannot run again until it is stopped.")
        self._running = True
        said: list[Inner] = [*asked] if output_task_messages else []
        try:
            for message in tuple(said):
                yield message
            judge = _TerminationWatcher(self._termination_condition)
            stop = await judge.begin(asked)
            stream = self._agent.turn(asked, cancellation_token or CancellationToken(), judge)
            async with aclosing(stream):
                while stop is None:
                    try:
                        item = await anext(stream)
                    except RunFailed as error:
                        if not self._is_out_of_turns(error.result.problem):
                            raise
                        stop = _with_actions(self._no_turns_left(error.result), error.actions)
                        rest = self._unreported(error.result, said)
                        said += rest
                        for event in rest:
                            yield event
                        break
                    told, stop = await judge.judged(item)
                    if not isinstance(told, ModelClientStreamingChunkEvent):
                        said.append(told)
                    yield told
                    if isinstance(item, Response):
                        stop = stop or self._stop_reason(item)
            yield TaskResult(messages=said, stop_reason=stop)
        finally:
            self._running = False
            if self._termination_condition is not None:
                await self._termination_condition.reset()

    def _stop_reason(self, response: Response) -> str:
        if isinstance(response.chat_message, HandoffMessage):
            return WAITS
        problem = json.loads(response.chat_message.metadata["podium_problem"])
        if problem is None:
            return ANSWERED
        lack = Problem(**problem)
        return self._out_of_turns if self._is_out_of_turns(lack) else f"{ANSWERED} {lack_of(lack)}"

    def _is_out_of_turns(self, problem: Problem | None) -> bool:
        """Return whether a run has no answer, or an incomplete answer, because of `max_turns`."""
        if self._max_turns is None or problem is None:
            return False
        return problem.code == LimitExceeded.code and "Limits.steps" in problem.message

    def _unreported(
        self, result: Result, said: Sequence[BaseAgentEvent | BaseChatMessage]
    ) -> list[ThoughtEvent]:
        """Return an event with the tokens that no message of the run has, if the run has no answer."""
        left = result.usage.beyond(Usage.total(filter(None, (read_usage(m.models_usage) for m in said))))
        told = ThoughtEvent(
            content=self._out_of_turns,
            source=self.name,
            models_usage=write_usage(left),
            metadata={"podium_run_id": result.run_id},
        )
        return [told] if left.total_tokens else []

    def _no_turns_left(self, result: Result) -> str:
        """Return the stop reason of a run without an answer; it says so if no step was worth its cost."""
        if any(outcome.attempts for outcome in result.outcomes) or result.problem is None:
            return self._out_of_turns
        return f"{self._out_of_turns} {result.problem.message}"

    @property
    def _out_of_turns(self) -> str:
        return f"Maximum number of turns {self._max_turns} reached."

    async def reset(self) -> None:
        """Forget the conversation.

        Raises:
            RuntimeError: the team is running.
        """
        if self._running:
            raise RuntimeError("The team is currently running. It must be stopped before it can be reset.")
        await self._agent.on_reset(CancellationToken())
        if self._termination_condition is not None:
            await self._termination_condition.reset()

    async def pause(self) -> None:
        """Raise `NotImplementedError`: cancel the run, and give the same task again to continue it."""
        raise NotImplementedError(_NO_PAUSE)

    async def resume(self) -> None:
        """Raise `NotImplementedError`, as `pause`."""
        raise NotImplementedError(_NO_PAUSE)

    async def save_state(self) -> Mapping[str, Any]:
        """Return the memory as plain data."""
        return await self._agent.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Replace the memory by the result of `save_state`.

        Raises:
            RuntimeError: the team is running.
            ValueError: the state is invalid.
        """
        if self._running:
            raise RuntimeError("The team cannot be loaded while it is running.")
        await self._agent.load_state(state)


class _TerminationWatcher(RunWatcher):
    """Checks a termination condition for each message, in order, before another worker is called."""

    def __init__(self, condition: TerminationCondition | None) -> None:
        self._condition = condition
        self._told: deque[BaseAgentEvent | BaseChatMessage] = deque()
        self._one = anyio.Lock()
        self._stop: tuple[str, str] | None = None
        """The id of the message that ends the run, and the reason."""
        self._events: list[Event] = []

    async def begin(self, task: Sequence[BaseChatMessage]) -> str | None:
        """Return the reason to end the run before it begins; `None` if there is no reason."""
        stop = await self._condition(task) if self._condition is not None and task else None
        return None if stop is None else stop.content

    def tell(self, message: Inner | Response) -> None:
        """Queue a message of the run."""
        message = message.chat_message if isinstance(message, Response) else message
        if not isinstance(message, ModelClientStreamingChunkEvent):
            self._told.append(message)

    def hear(self, event: Event) -> None:
        """Keep an event, for the actions and the planners' tokens of a run that is ended."""
        if self._condition is not None and not isinstance(event, PIECES):
            self._events.append(event)

    async def ready(self) -> None:
        """Return if no message so far ends the run; otherwise wait until it is cancelled."""
        await self._judge()
        if self._stop is not None:
            await anyio.sleep_forever()

    async def judged(self, item: Inner | Response) -> tuple[Inner, str | None]:
        """Return an item's message, and the reason why it ends the run; `None` if it does not.

        The planners' tokens are added to the message that ends the run, as to an answer.
        """
        message = item.chat_message if isinstance(item, Response) else item
        if isinstance(message, ModelClientStreamingChunkEvent):
            return message, None
        await self._judge()
        if self._stop is None or self._stop[0] != message.id:
            return message, None
        if isinstance(item, Response):
            return message, self._stop[1]
        run_id = self._events[0].run_id  # the first event belongs to the outer run
        planners = [e for e in self._events if isinstance(e, PlannerEnded) and e.run_id == run_id]
        if (used := Usage.total(each.proposal.usage for each in planners)).total_tokens:
            used += read_usage(message.models_usage) or Usage()
            message = message.model_copy(update={"models_usage": write_usage(used)})
        return message, _with_actions(self._stop[1], actions_in(self._events))

    async def _judge(self) -> None:
        async with self._one:
            while self._told and self._stop is None and self._condition is not None:
                message = self._told.popleft()
                if (stop := await self._condition([message])) is not None:
                    self._stop = message.id, stop.content


def _with_actions(reason: str, actions: Sequence[Action]) -> str:
    """Return the reason why a run ended before its answer, with the actions that had begun."""
    return f"{reason.rstrip('.')}; {actions_told(actions)}" if actions else reason


def _with_max_turns(
    max_turns: int | None, options: ConductorOptions, conductor: Conductor | None
) -> ConductorOptions:
    """Return the options with `Limits.steps` of at most `max_turns`."""
    if max_turns is None:
        return options
    if conductor is not None:
        raise ConfigError("max_turns cannot be given with a podium.Conductor: set its Limits.steps")
    limits = options.get("limits") or Limits()
    return {**options, "limits": replace(limits, steps=min(limits.steps, max_turns))}


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
