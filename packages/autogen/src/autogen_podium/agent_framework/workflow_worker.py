"""A worker that runs an Agent Framework workflow.

A workflow remembers messages between runs. But a step may be shown only the steps on its access list. So the
workflow is reset before each step, and runs one step at a time.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from copy import deepcopy
from functools import reduce
from operator import add
from weakref import WeakKeyDictionary

from agent_framework import (
    AgentExecutorResponse,
    AgentResponse,
    Message,
    Workflow,
    WorkflowCheckpoint,
    WorkflowRunResult,
    WorkflowRunState,
)

from autogen_podium.agent_framework.messages import read_usage, to_framework
from autogen_podium.agent_framework.responses import AnyAgentResponse, failed_tools, read_response
from autogen_podium.exclusive import exclusive
from podium.aio.sync import events_of
from podium.errors import WorkerFailed
from podium.hosts import worker_errors
from podium.types import Completion
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers import Card, Request, Worker


class WorkflowWorker(Worker):
    """Runs a workflow with the step's input. Its last output is the answer, which is not streamed.

    Each step starts from the state that the workflow had before its first step.

    Args:
        workflow: the workflow; its first executor accepts messages.
        card: the worker's card.
    """

    def __init__(self, workflow: Workflow, *, card: Card) -> None:
        self.workflow = workflow
        self.card = card

    def __repr__(self) -> str:
        return f"WorkflowWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the workflow.

        Raises:
            WorkerFailed: the workflow waits for a person's answer, has no output, or its last output is not
                text.
            WorkerBroken: the agent whose answer is the output wrote nothing, or was cut.
            AnswerRefused: the agent whose answer is the output refused to answer.
        """
        async with aclosing(self._run(request)) as runs:
            with worker_errors(self.card.name, has_run=lambda: self.acts):
                run = await anext(runs)
        completion = self._completion(request, run)
        if request.stream:
            yield completion.text
        yield completion

    def _run(self, request: Request) -> AsyncGenerator[WorkflowRunResult, None]:
        """Run in a separate task: a second cancellation would leave tasks of the workflow behind."""

        async def running(emit: Callable[[WorkflowRunResult], None]) -> None:
            async with exclusive(self.workflow):
                await _set_back(self.workflow)
                emit(await self.workflow.run(to_framework(request.messages)))

        return events_of(running)

    def _completion(self, request: Request, run: WorkflowRunResult) -> Completion:
        name, outputs, responses = self.card.name, run.get_outputs(), list(_responses(run))
        if run.get_final_state() == WorkflowRunState.IDLE_WITH_PENDING_REQUESTS:
            waits = f"worker {name!r} asks for approval or for other information"
            raise WorkerFailed(f"{waits}, but a step cannot wait", maybe_paid=True)
        if not outputs:
            raise WorkerFailed(f"worker {name!r} ended without an output", maybe_paid=True)
        last = outputs[-1]
        answer = last if isinstance(last, AgentResponse) else AgentResponse(messages=_messages(last, name))
        completion = read_response(request, answer, "", worker=name, client=None)
        used = [read_usage(response.usage_details) for response in responses]
        known = [usage for usage in used if usage is not None]
        missing = "; ".join(filter(None, (failed_tools(response.messages) for response in responses)))
        return Completion(
            completion.text,
            finish_reason=completion.finish_reason,
            tool_calls=completion.tool_calls,
            usage=reduce(add, known, Usage()) if known and len(known) == len(used) else completion.usage,
            missing=missing or completion.missing,
        )


def _responses(run: WorkflowRunResult) -> Iterator[AnyAgentResponse]:
    """Yield the response of each agent in a run, also of agents whose response is not an output."""
    for event in run:
        sent = list(event.data or ()) if event.type == "executor_completed" else []
        handed_on = [one.agent_response for one in sent if isinstance(one, AgentExecutorResponse)]
        # an executor that passes a response on may also output it
        yield from handed_on[:1] or [one for one in sent if isinstance(one, AgentResponse)][:1]


def _messages(output: object, worker: str) -> list[Message]:
    """Return an output that is not a response as assistant messages."""
    parts = output if isinstance(output, list) else [output]
    texts = [part.text if isinstance(part, Message) else part for part in parts]
    text = texts[-1] if texts else ""
    if not isinstance(text, str):
        told = f"worker {worker!r} has a {type(output).__name__} as its last output, which is not text"
        raise WorkerFailed(f"{told}: have it output texts, messages or responses of agents", maybe_paid=True)
    return [Message("assistant", [storable(text)])]


_first: WeakKeyDictionary[Workflow, WorkflowCheckpoint] = WeakKeyDictionary()
"""The states of workflows before their first steps."""


async def _set_back(workflow: Workflow) -> None:
    """Reset a workflow to its first state, as Agent Framework does with a nested workflow."""
    runner = workflow._runner  # noqa: SLF001 - the public way needs a storage and a resumed run
    if workflow not in _first:
        _first[workflow] = deepcopy(await runner.build_checkpoint())
    await runner.restore_checkpoint(deepcopy(_first[workflow]))
