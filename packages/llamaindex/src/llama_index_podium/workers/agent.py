"""A worker that runs a LlamaIndex agent or a team of agents."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace
from typing import Final, TypeGuard

from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentStream,
    AgentWorkflow,
    FunctionAgent,
    ToolCallResult,
)
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Event

from llama_index_podium.messages import to_llama
from llama_index_podium.sources import note
from llama_index_podium.usage import Spent, spending
from llama_index_podium.workers.acts import acts_first
from llama_index_podium.workers.answers import completion_of
from llama_index_podium.workers.blocking import in_thread, is_blocking
from llama_index_podium.workers.workflow_run import events_of_run, nodes_of_result
from podium.errors import WorkerBroken
from podium.hosts import text_of, worker_errors
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card, Request, Worker

_MEMORY_TOKENS: Final = 10**9
"""A limit so high that LlamaIndex's memory never drops messages.

With its default limit, it drops them silently.
"""
_MAX_QUOTE: Final = 300

Agent = BaseWorkflowAgent | AgentWorkflow


def is_agent(thing: object) -> TypeGuard[Agent]:
    """Return whether an object is an agent, or a team of agents."""
    return isinstance(thing, Agent)


class AgentWorker(Worker):
    """Runs an agent or an `AgentWorkflow`; each call has its own memory.

    The answer is not streamed, because only its end shows which text is the last. A `FunctionAgent` without
    tools has one text, which is streamed. If the last call of a tool failed, the completion says so in
    `missing`.

    Args:
        agent: the agent. If its model blocks, it runs in a thread with its own event loop.
        card: the worker's card; its price is the price of the models that the agent calls.
    """

    def __init__(self, agent: Agent, *, card: Card) -> None:
        self.agent = agent
        self.card = card

    def __repr__(self) -> str:
        return f"AgentWorker({self.card.name!r})"

    @property
    def agents(self) -> Sequence[BaseWorkflowAgent]:
        """The agent, or the agents of the team."""
        return list(self.agent.agents.values()) if isinstance(self.agent, AgentWorkflow) else [self.agent]

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the agent with the step's input.

        Raises:
            WorkerBroken: structured output was required, and the agent returned none.
            WorkerRefused: it waits for a person to answer.
        """
        heard, spent = _Heard(), Spent()
        messages, streams = to_llama(request.messages), request.stream and self._has_one_text
        if self._blocks:
            streams = False
            with self._errors(spent):
                await in_thread(lambda: asyncio.run(self._listen(messages, heard, spent)))
        else:
            async with aclosing(self._events(messages, heard, spent)) as events:
                while True:
                    with self._errors(spent):
                        event = await anext(events, None)
                    if event is None:
                        break
                    if streams and isinstance(event, AgentStream) and event.delta:
                        yield event.delta
        with self._errors(spent):
            completion = self._completion(heard, spent)
        if request.stream and not streams:
            yield completion.text
        yield completion

    def _errors(self, spent: Spent) -> AbstractContextManager[None]:
        """Translate exceptions; after the first answer of its model, the agent may have called tools."""
        return worker_errors(
            self.card.name,
            usage=lambda: spent.known,
            has_run=lambda: spent.usage.total_tokens > 0 or (self.acts and any(map(acts_first, self.agents))),
        )

    @property
    def _blocks(self) -> bool:
        return any(is_blocking(agent.llm) for agent in self.agents)

    @property
    def _has_one_text(self) -> bool:
        """Whether the model is called only once, so that its first text is its last."""
        agents = self.agents
        alone = agents[0] if len(agents) == 1 else None
        structured = any(
            thing.output_cls is not None or thing.structured_output_fn is not None
            for thing in (self.agent, *agents)
        )
        return (
            isinstance(alone, FunctionAgent)
            and alone.streaming
            and not structured
            and not alone.tools
            and alone.tool_retriever is None
        )

    def _wants_object(self, output: AgentOutput) -> bool:
        """Return whether the team, or the agent that answered, requires structured output."""
        things = [self.agent, *(agent for agent in self.agents if agent.name == output.current_agent_name)]
        return any(thing.output_cls or thing.structured_output_fn for thing in things)

    async def _listen(self, messages: list[ChatMessage], heard: "_Heard", spent: Spent) -> None:
        async with aclosing(self._events(messages, heard, spent)) as events:
            async for _ in events:
                pass

    async def _events(
        self, messages: list[ChatMessage], heard: "_Heard", spent: Spent
    ) -> AsyncGenerator[Event, None]:
        """Run the agent and yield its events; `heard` keeps the facts needed at the end."""
        memory = ChatMemoryBuffer.from_defaults(token_limit=_MEMORY_TOKENS)
        with spending(spent):  # the run's tasks are created here, and inherit it
            handler = self.agent.run(chat_history=messages, memory=memory)
        async with aclosing(events_of_run(handler, self.card.name)) as events:
            async for event in events:
                heard.take(event)
                yield event
        heard.output = await handler

    def _completion(self, heard: "_Heard", spent: Spent) -> Completion:
        output = heard.output
        assert output is not None  # a run without an output raises
        text = text_of(output.response.content)
        if output.structured_response is not None:
            text = text_of(output.structured_response)
        elif self._wants_object(output):
            told = f"agent {self.card.name!r} gave no structured output: {text[:_MAX_QUOTE]!r}"
            raise WorkerBroken(told, maybe_paid=True)
        failed, completion = heard.failed, completion_of(storable(text), spent, self.card)
        return replace(completion, missing=failed) if failed else completion


class _Heard:
    """Facts from an agent's events that its answer does not have."""

    def __init__(self) -> None:
        self.output: AgentOutput | None = None
        """The run's result; `None` before its end."""
        self._faults: dict[str, str] = {}
        """The error of each tool whose last call failed, by the tool's name."""

    @property
    def failed(self) -> str:
        """A text that names the tools whose last call failed; empty if there are none."""
        return "; ".join(f"its tool {name!r} failed: {why}" for name, why in self._faults.items())

    def take(self, event: Event) -> None:
        """Record a tool's result: the nodes it found, or its error."""
        if isinstance(event, ToolCallResult):
            output = event.tool_output
            note(nodes_of_result(output.raw_output))
            self._faults.pop(event.tool_name, None)
            if output.is_error:
                self._faults[event.tool_name] = storable(output.content)[:_MAX_QUOTE]
