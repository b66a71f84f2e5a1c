"""A worker that is an agent of AutoGen's, or a team.

Both remember messages. So that a step is shown only its access list, the agent is reset before
each step, and does one step at a time.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Final

from autogen_agentchat.base import ChatAgent, TaskResult, Team
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, ToolCallSummaryMessage
from autogen_core import CancellationToken
from autogen_core.models import FunctionExecutionResult

from autogen_podium.cancellation import cancelling, exclusive
from autogen_podium.messages import read_usage, to_chat
from autogen_podium.workers.finish import finishes_of
from podium.errors import AnswerToolCalls, WorkerError, WorkerFailed
from podium.hosts import read_completion, spent_completion, worker_errors
from podium.types import Completion, storable
from podium.usage import Usage
from podium.workers import Card, Request, Worker

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
    """

    def __init__(self, agent: ChatAgent | Team, *, card: Card) -> None:
        self.agent = agent
        self.card = card

    def __repr__(self) -> str:
        return f"AgentWorker({self.card.name!r})"

    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the agent with what the step is shown, and return its last message."""
        return self.call_listened(request, lambda _: None)

    async def call_listened(
        self, request: Request, listener: Listener
    ) -> AsyncGenerator[str | Completion, None]:
        """Do as `call`; the listener takes each message and event inside."""
        token, heard = CancellationToken(), list[Inner]()

        def hear(inner: Inner) -> None:
            heard.append(inner)
            listener(inner)

        try:
            with worker_errors(self.card.name, usage=lambda: _spent(heard)):
                async with exclusive(self.agent):
                    with finishes_of(self.agent) as finishes:
                        await cancelling(token, self._ask(request, token, hear))
                used, last = usage_of(heard), _last_message(heard)
                text = "" if last is None else last.to_model_text()
                if isinstance(last, ToolCallSummaryMessage) and (fault := _tool_fault(last, self.card.name)):
                    raise fault
                finish = finishes.reason_of(text)
                done = read_completion(request.messages, text=text, finish_reason=finish, usage=used)
                if used == Usage():
                    done = spent_completion(done.text, used, self.card)
        finally:
            token.cancel()
        if request.stream:
            yield done.text
        yield done

    async def _ask(self, request: Request, token: CancellationToken, hear: Listener) -> None:
        agent, task = self.agent, to_chat(request.messages)
        if isinstance(agent, Team):
            await agent.reset()
        else:
            await agent.on_reset(token)
        async for inner in agent.run_stream(task=task, cancellation_token=token, output_task_messages=False):
            if not isinstance(inner, TaskResult):
                hear(inner)


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


def _spent(heard: list[Inner]) -> Usage | None:
    used = usage_of(heard)
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


def _is_unknown(result: FunctionExecutionResult) -> bool:
    """Return whether a model called a tool that its agent does not have; only the text says so."""
    return result.content == f"Error: tool '{result.name}' not found in any workbench"
