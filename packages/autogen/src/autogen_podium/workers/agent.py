"""A worker that is an agent of AutoGen's, or a team.

Both remember messages. So that a step is shown only its access list, the agent is reset before
each step, and does one step at a time.
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
from autogen_podium.workers.finish import Finishes, watching
from autogen_podium.workers.human import human_prompt, prompting
from autogen_podium.workers.team_errors import error_in_team
from podium.errors import AnswerToolCalls, ConfigError, WorkerError, WorkerFailed
from podium.hosts import read_completion, spent_completion, worker_errors
from podium.types import Completion, storable
from podium.usage import Usage
from podium.workers import Card, Request, Worker, step_input_of

Inner = BaseAgentEvent | BaseChatMessage
"""A message or event inside an agent."""
Listener = Callable[[Inner], None]
_MAX_QUOTE: Final = 300


class AgentWorker(Worker):
    """Has an agent or a team do the subtask.

    Its answer comes in one piece: only at its end is it known which of its texts is the last.
    Its messages meanwhile go to a listener.

    Args:
        agent: the agent or team; it is reset before every step.
        card: what the planner is told of it.

    Humans inside (`UserProxyAgent`) are shown the question, the visible steps and the subtask.

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
        """Run the agent with what the step is shown, and return its last message."""
        return self.call_listened(request, lambda _: None)

    async def call_listened(
        self, request: Request, listener: Listener
    ) -> AsyncGenerator[str | Completion, None]:
        """Do as `call`; the listener takes each message and event inside.

        It does not take the last message if that is no answer.
        """
        token, finishes = CancellationToken(), Finishes()
        heard = _Heard(listener, human_prompt(step_input_of(request)))
        try:
            with worker_errors(self.card.name, usage=lambda: _spent(heard.messages, finishes)):
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
        """Run the agent, and return what failed; `None` where nothing did."""
        try:
            await cancelling(token, self._ask(request, token, heard.hear))
        except (ValueError, RuntimeError) as error:  # an agent may read a form out of a refusal
            heard.release()
            return finishes.last_refusal(self.card.name) or error_in_team(error, finishes.last_error)
        except Exception:
            heard.release()
            raise
        return None

    def _completion(self, request: Request, heard: list[Inner], finishes: Finishes) -> Completion:
        """Return the answer, by the rules that hold for every chat model."""
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
    """The messages inside an agent. A listener takes each when it is clear that it is not a void answer.

    Args:
        listener: takes each message.
        prompt: what a human is shown of the step.
    """

    def __init__(self, listener: Listener, prompt: str) -> None:
        self.messages: list[Inner] = []
        self.prompt = prompt
        self._listener = listener
        self._held: BaseChatMessage | None = None
        """The latest message, which may be the answer."""

    def hear(self, inner: Inner) -> None:
        """Take a message."""
        if isinstance(inner, UserInputRequestedEvent):
            inner.metadata["podium_prompt"] = self.prompt
        self.messages.append(inner)
        self.release()
        if isinstance(inner, BaseChatMessage):
            self._held = inner
        else:
            self._listener(inner)

    def release(self) -> None:
        """Give the listener the message that is held."""
        held, self._held = self._held, None
        if held is not None:
            self._listener(held)


def _check_handoffs(agent: ChatAgent | Team) -> None:
    """Raise `ConfigError` for an agent with handoffs. Those inside a team are the team's."""
    inner: object = agent
    while isinstance(inner, MessageFilterAgent):
        inner = vars(inner)["_wrapped_agent"]
    if isinstance(inner, AssistantAgent) and vars(inner).get("_handoffs"):
        told = f"agent {agent.name!r} has handoffs, and a conductor's plan decides who works"
        raise ConfigError(f"{told}: make it without handoffs, or give a Swarm of these agents as one worker")


def usage_of(messages: list[Inner]) -> Usage | None:
    """Return the usage on messages, each counted once.

    It is `None` where a model was asked and did not report all of its usage, and `Usage()` where no
    model was asked.
    """
    reported = {
        inner.id: read_usage(inner.models_usage) for inner in messages if inner.models_usage is not None
    }
    known = [usage for usage in reported.values() if usage is not None]
    return Usage.total(known) if len(known) == len(reported) else None


def _used(heard: list[Inner], finishes: Finishes) -> Usage | None:
    """Return the usage on messages with the usage of the managers of teams."""
    used, managers = usage_of(heard), finishes.managers_usage
    return None if used is None or managers is None else used + managers


def _spent(heard: list[Inner], finishes: Finishes) -> Usage | None:
    used = _used(heard, finishes)
    return None if used == Usage() else used  # a call that failed may have asked a model unseen


def _last_message(heard: list[Inner]) -> BaseChatMessage | None:
    return next((inner for inner in reversed(heard) if isinstance(inner, BaseChatMessage)), None)


def _tool_fault(summary: ToolCallSummaryMessage, worker: str) -> WorkerError | None:
    """Return the error for an answer that is the error text of a tool; `None` where no tool failed."""
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
    return WorkerFailed(f"{told}, whom a step cannot wait for", maybe_paid=True)


def _is_unknown(result: FunctionExecutionResult) -> bool:
    """Return whether a model called a tool that its agent does not have; only the text says so."""
    return result.content == f"Error: tool '{result.name}' not found in any workbench"
