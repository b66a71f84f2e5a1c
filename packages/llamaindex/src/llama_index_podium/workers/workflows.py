"""Workers that are agents, teams of agents, and the user's own workflows."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from llama_index.core.agent.workflow import AgentOutput, AgentWorkflow, ToolCallResult
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import (
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
)

from llama_index_podium.cards import acts_first, in_thread, is_blocking
from llama_index_podium.messages import to_llama, whole_memory
from llama_index_podium.sources import note, text_of as text_of_nodes
from llama_index_podium.usage import Spent, completion_of, spending
from podium.aio.calls import shielded
from podium.errors import ConfigError, WorkerBroken, WorkerRefused
from podium.hosts import ToolWorker, text_of, worker_errors
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card, Request, Worker

if TYPE_CHECKING:
    from workflows.handler import WorkflowHandler


ASKER: ContextVar[Callable[[InputRequiredEvent], Awaitable[HumanResponseEvent]] | None] = ContextVar(
    "podium_asker", default=None
)
"""Asks the person at the run; `None` if there is nobody who can be asked within a step."""


async def events_of_run(handler: "WorkflowHandler", worker: str) -> AsyncGenerator[Event, None]:
    """Yield the events that a run writes to its stream. Leaving the iteration cancels the run.

    `await handler` returns the result of the run, or raises its error.
    """
    try:
        async with aclosing(handler.stream_events()) as events:
            async for event in events:
                if isinstance(event, InputRequiredEvent):
                    ask = ASKER.get()
                    if ask is None:
                        asked = f"{getattr(event, 'prefix', '')!r:.200}"
                        told = f"worker {worker!r} waits for a person to answer {asked}"
                        raise WorkerRefused(f"{told}: use it in a ConductorWorkflow, or ask before the run")
                    handler.ctx.send_event(await ask(event))
                elif not isinstance(event, StopEvent):
                    yield event
    finally:
        if not handler.is_done():
            await shielded(handler.cancel_run())


def text_of_result(result: object) -> str:
    """Return the result of a workflow as text: text unchanged, nodes as passages, other values as JSON."""
    match result:
        case ChatMessage():
            return result.content or ""
        case ChatResponse():
            return result.message.content or ""
        case Response() | PydanticResponse():
            return str(result) if result.response else ""
        case [NodeWithScore(), *_]:
            return text_of_nodes(node for node in result if isinstance(node, NodeWithScore))
        case StopEvent():  # a subclass of the workflow's own
            return text_of(result.model_dump(mode="json"))
    return text_of(result)


def nodes_of_result(result: object) -> Any:
    """Return the nodes in the result of a workflow or a tool; other results are returned unchanged."""
    return getattr(result, "source_nodes", result)


_MAX_QUOTE: Final = 300

Agent = BaseWorkflowAgent | AgentWorkflow


def is_agent(thing: object) -> TypeGuard[Agent]:
    """Return whether an object is an agent, or a team of agents."""
    return isinstance(thing, Agent)


class AgentWorker(Worker):
    """Runs an agent or an `AgentWorkflow`; each call has its own memory.

    The answer is not streamed, because only its end shows which text is the last. If the last call of a tool
    failed, the completion says so in `missing`. If its model blocks, it runs in a thread with its own event
    loop.
    """

    def __init__(self, agent: Agent, *, card: Card) -> None:
        self.agent = agent
        self.card = card

    @property
    def agents(self) -> Sequence[BaseWorkflowAgent]:
        """The agent, or the agents of the team."""
        return list(self.agent.agents.values()) if isinstance(self.agent, AgentWorkflow) else [self.agent]

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the agent with the step's input."""
        spent, messages = Spent(), to_llama(request.messages)
        with worker_errors(
            self.card.name,
            usage=lambda: spent.known,
            # after the first answer of its model, the agent may have called tools
            has_run=lambda: spent.usage.total_tokens > 0 or (self.acts and any(map(acts_first, self.agents))),
        ):
            if any(is_blocking(agent.llm) for agent in self.agents):
                completion = await in_thread(lambda: asyncio.run(self._run_alone(messages, spent)))
            else:
                completion = await self._run(messages, spent)
        if request.stream:
            yield completion.text
        yield completion

    async def _run_alone(self, messages: list[ChatMessage], spent: Spent) -> Completion:
        ASKER.set(None)  # the person is in another event loop
        return await self._run(messages, spent)

    async def _run(self, messages: list[ChatMessage], spent: Spent) -> Completion:
        faults: dict[str, str] = {}
        with spending(spent):  # the run's tasks are created here, and inherit it
            handler = self.agent.run(chat_history=messages, memory=whole_memory())
        async with aclosing(events_of_run(handler, self.card.name)) as events:
            async for event in events:
                if isinstance(event, ToolCallResult):
                    output = event.tool_output
                    note(nodes_of_result(output.raw_output))
                    faults.pop(event.tool_name, None)  # only its last call counts
                    if output.is_error:
                        faults[event.tool_name] = storable(output.content)[:_MAX_QUOTE]
        completion = completion_of(storable(self._text(await handler)), spent, self.card)
        failed = "; ".join(f"its tool {name!r} failed: {why}" for name, why in faults.items())
        return replace(completion, missing=failed) if failed else completion

    def _text(self, output: AgentOutput) -> str:
        if output.structured_response is not None:
            return text_of(output.structured_response)
        text = text_of(output.response.content)
        if self._wants_object(output):
            told = f"agent {self.card.name!r} gave no structured output: {text[:_MAX_QUOTE]!r}"
            raise WorkerBroken(told, maybe_paid=True)
        return text

    def _wants_object(self, output: AgentOutput) -> bool:
        """Return whether the team, or the agent that answered, requires structured output."""
        things = [self.agent, *(agent for agent in self.agents if agent.name == output.current_agent_name)]
        return any(thing.output_cls or thing.structured_output_fn for thing in things)


class WorkflowWorker(ToolWorker):
    """Runs a workflow, whose start event defines its arguments, like the schema of a tool."""

    uses_tokens = True

    def __init__(self, workflow: Workflow, *, card: Card, input_field: str | None) -> None:
        self.workflow = workflow
        super().__init__(_schema(workflow, input_field, card.name), self._run, card=card)

    async def _run(self, arguments: dict[str, Any]) -> Completion:
        name, spent = self.card.name, Spent()
        with worker_errors(name, usage=lambda: spent.known, has_run=lambda: True):
            with spending(spent):  # the run's tasks are created here, and inherit it
                handler = self.workflow.run(**arguments)
            async for _ in events_of_run(handler, name):
                pass
            result: Any = await handler
            note(nodes_of_result(result))
            return completion_of(text_of_result(result), spent, self.card)


def _schema(workflow: Workflow, input_field: str | None, name: str) -> dict[str, Any]:
    """Return the JSON schema of a workflow's arguments."""
    start = workflow.start_event_class
    declared = [name for name in start.model_fields if name not in StartEvent.model_fields]
    if input_field is None and declared:
        return start.model_json_schema()
    if input_field is None:
        told = f"workflow {name!r} starts with a {start.__name__} that declares no fields"
        raise ConfigError(
            f"{told}: name the field that the steps of the workflow read, with "
            "as_worker(..., input_field='query'), or declare the fields in a subclass of StartEvent"
        )
    if declared:
        raise ConfigError(
            f"workflow {name!r} has declared fields ({', '.join(declared)}): remove input_field"
        )
    return {"properties": {input_field: {"type": "string"}}, "required": [input_field]}
