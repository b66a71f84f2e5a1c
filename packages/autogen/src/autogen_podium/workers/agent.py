"""A worker that runs an AutoGen agent or team.

Agents and teams remember messages. But a step may be shown only the steps on its access list. So the agent or
team is reset before each step, and runs one step at a time.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Final

from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, UserProxyAgent
from autogen_agentchat.base import ChatAgent, TaskResult, Team
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    HandoffMessage,
    ToolCallSummaryMessage,
    UserInputRequestedEvent,
)
from autogen_core import CancellationToken
from autogen_core.models import FunctionExecutionResult

from autogen_podium.cancellation import cancelling
from autogen_podium.exclusive import exclusive
from autogen_podium.messages import read_usage, to_chat
from autogen_podium.workers.acts import acts_first
from autogen_podium.workers.finish import Finishes, watching
from autogen_podium.workers.human import human_prompt, prompting
from autogen_podium.workers.team_errors import error_in_team
from podium.errors import AnswerToolCalls, ConfigError, WorkerError, WorkerFailed
from podium.hosts import read_completion, worker_errors
from podium.hosts.results import spent_completion
from podium.types import Completion
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers import Card, Request, Worker, step_input_of

Inner = BaseAgentEvent | BaseChatMessage
"""A message or event inside an agent."""
Listener = Callable[[Inner], None]
_MAX_QUOTE: Final = 300


class AgentWorker(Worker):
    """Runs an agent or a team.

    Its answer is not streamed, because only the end shows which text is the last. A listener gets its
    messages as they are sent. Humans inside (`UserProxyAgent`) are shown the question, the visible steps and
    the subtask.

    Args:
        agent: the agent or team; it is reset before every step.
        card: the worker's card.

    Raises:
        ConfigError: the agent has handoffs.
    """

    def __init__(self, agent: ChatAgent | Team, *, card: Card) -> None:
        _check_handoffs(agent)
        self.agent = agent
        self.uses_tokens = not isinstance(agent, UserProxyAgent)
        self.card = card

    def __repr__(self) -> str:
        return f"AgentWorker({self.card.name!r})"

    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the agent with the step's input, and return its last message."""
        return self.call_listened(request, lambda _: None)

    async def call_listened(
        self, request: Request, listener: Listener
    ) -> AsyncGenerator[str | Completion, None]:
        """Run the agent like `call`; the listener gets each message and event inside.

        The listener does not get the last message if it is an invalid answer.
        """
        token, finishes = CancellationToken(), Finishes()
        heard = _Heard(listener, human_prompt(step_input_of(request)))
        try:
            with worker_errors(
                self.card.name,
                usage=lambda: _spent(heard.messages, finishes),
                has_run=lambda: bool(heard.messages) or (self.acts and acts_first(self.agent)),
            ):
                async with exclusive(self.agent):
                    with watching(self.agent, finishes), prompting(self.agent, heard.prompt):
                        failure = await self._failure(request, token, heard, finishes)
                if failure is not None:
                    raise failure
                done = self._completion(request, heard.messages, finishes)
        finally:
            token.cancel()
        heard.release()
        if request.stream:
            yield done.text
        yield done

    async def _failure(
        self, request: Request, token: CancellationToken, heard: "_Heard", finishes: Finishes
    ) -> Exception | None:
        """Run the agent, and return the exception; `None` without an exception."""
        try:
            await cancelling(token, self._ask(request, token, heard.hear))
        # an agent may try to parse a refusal as structured output
        except (ValueError, RuntimeError) as error:
            heard.release()
            return finishes.last_refusal(self.card.name) or error_in_team(error, finishes.last_error)
        except Exception:  # raised again: the message held back is passed on first
            heard.release()
            raise
        return None

    def _completion(self, request: Request, heard: list[Inner], finishes: Finishes) -> Completion:
        """Return the answer, by the same rules as for every chat model."""
        used, last = _used(heard, finishes), _last_message(heard)
        text = "" if last is None else last.to_model_text()
        if isinstance(last, HandoffMessage):
            raise _handed_off(last, self.card.name)
        if isinstance(last, ToolCallSummaryMessage) and (fault := _tool_fault(last, self.card.name)):
            raise fault
        finish, refusal = finishes.ending_of(text)
        done = read_completion(request.messages, text=text, finish_reason=finish, refusal=refusal, usage=used)
        return spent_completion(done.text, used, self.card) if used == Usage() else done

    async def _ask(self, request: Request, token: CancellationToken, hear: Listener) -> None:
        agent, task = self.agent, to_chat(request.messages)
        if isinstance(agent, Team):
            await agent.reset()
        else:
            await agent.on_reset(token)
        async for inner in agent.run_stream(task=task, cancellation_token=token, output_task_messages=False):
            if not isinstance(inner, TaskResult):
                hear(inner)


class _Heard:
    """Collects the messages inside an agent.

    The listener does not get a message before it is known whether it is an invalid answer.

    Args:
        listener: gets each message.
        prompt: the text that a human is shown.
    """

    def __init__(self, listener: Listener, prompt: str) -> None:
        self.messages: list[Inner] = []
        self.prompt = prompt
        self._listener = listener
        self._held: BaseChatMessage | None = None
        """The latest message, which may be the answer."""

    def hear(self, inner: Inner) -> None:
        """Handle a message."""
        if isinstance(inner, UserInputRequestedEvent):
            inner.metadata["podium_prompt"] = self.prompt
        self.messages.append(inner)
        self.release()
        if isinstance(inner, BaseChatMessage):
            self._held = inner
        else:
            self._listener(inner)

    def release(self) -> None:
        """Pass the held message to the listener."""
        held, self._held = self._held, None
        if held is not None:
            self._listener(held)


def _check_handoffs(agent: ChatAgent | Team) -> None:
    """Raise `ConfigError` for an agent with handoffs. Handoffs between members of a team are allowed."""
    inner: object = agent
    while isinstance(inner, MessageFilterAgent):
        inner = vars(inner)["_wrapped_agent"]
    if isinstance(inner, AssistantAgent) and vars(inner).get("_handoffs"):
        told = f"agent {agent.name!r} has handoffs, but the plan chooses the workers"
        raise ConfigError(
            f"{told}: create it without handoffs, or pass a Swarm of these agents as one worker"
        )


def usage_of(messages: list[Inner]) -> Usage | None:
    """Return the usage on messages, each counted once.

    `None` if a model did not report all of its usage, `Usage()` if no model was called. Messages of a
    conductor's run without an answer do not count here: Podium counts the cost of such a run separately.
    """
    answered = {_run_of(inner) for inner in messages if "podium_status" in inner.metadata}
    reported = {
        inner.id: read_usage(inner.models_usage)
        for inner in messages
        if inner.models_usage is not None and _run_of(inner) in (None, *answered)
    }
    known = [usage for usage in reported.values() if usage is not None]
    return Usage.total(known) if len(known) == len(reported) else None


def _run_of(inner: Inner) -> str | None:
    """Return the id of the conductor's run that a message belongs to; `None` for another message."""
    return inner.metadata.get("podium_run_id")


def _used(heard: list[Inner], finishes: Finishes) -> Usage | None:
    """Return the usage on messages plus the usage of the managers of teams."""
    used, managers = usage_of(heard), finishes.managers_usage
    return None if used is None or managers is None else used + managers


def _spent(heard: list[Inner], finishes: Finishes) -> Usage | None:
    used = _used(heard, finishes)
    return None if used == Usage() else used  # a failed call may have called a model unseen


def _last_message(heard: list[Inner]) -> BaseChatMessage | None:
    return next((inner for inner in reversed(heard) if isinstance(inner, BaseChatMessage)), None)


def _tool_fault(summary: ToolCallSummaryMessage, worker: str) -> WorkerError | None:
    """Return the error if the answer is the error text of a tool; `None` if no tool failed."""
    failed = [result for result in summary.results if result.is_error]
    if not failed:
        return None
    if unknown := [result.name for result in failed if _is_unknown(result)]:
        told = f"worker {worker!r} called tools that nobody offered: {', '.join(unknown)}"
        return AnswerToolCalls(told, maybe_paid=True)
    said = "; ".join(f"{result.name}: {storable(result.content)[:_MAX_QUOTE]}" for result in failed)
    return WorkerFailed(
        f"a tool of worker {worker!r} failed, and its error is the answer: {said}", maybe_paid=True
    )


def _handed_off(handoff: HandoffMessage, worker: str) -> WorkerFailed:
    told = f"worker {worker!r} has no answer: {handoff.source!r} handed its subtask off to {handoff.target!r}"
    return WorkerFailed(f"{told}, but a step cannot wait for another agent", maybe_paid=True)


def _is_unknown(result: FunctionExecutionResult) -> bool:
    """Return whether a model called a tool that its agent does not have; only the text shows it."""
    return result.content == f"Error: tool '{result.name}' not found in any workbench"
