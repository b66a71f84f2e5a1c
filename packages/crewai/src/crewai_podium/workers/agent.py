"""A worker that runs a CrewAI agent.

Each call is a separate task for a copy of the agent, because an agent does one task at a time. The copy is
shown the request's messages, and has the agent's memory and knowledge.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Literal

from anyio import CancelScope, to_thread
from crewai import Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.tools_handler import ToolsHandler
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool
from crewai.utilities.pydantic_schema_utils import create_model_from_schema
from pydantic import BaseModel

from crewai_podium.usage import OnUsage, UsageMeter, counted
from crewai_podium.workers.acts import acts_first
from crewai_podium.workers.errors import crewai_errors, read_answer
from crewai_podium.workers.guardrail import do_task
from podium.errors import WorkerUnavailable
from podium.secrets import printable
from podium.types import Completion, Constraint
from podium.types.messages import prompt_text
from podium.workers import Card, Request, Worker, step_input_of

_EXPECTED: Final = "All that your part asks for, complete."
_LLMS: Final = ("llm", "function_calling_llm")
_MAX_NAME: Final = 80


class AgentWorker(Worker):
    """Runs a copy of an agent for each step.

    An answer is partial if the last call of a tool failed, or the agent reached its `max_iter`. An answer
    that the agent's guardrail refuses is retried up to `guardrail_max_retries` times; then the step fails
    with `guardrail_tripped`.

    Args:
        agent: the agent that is copied.
        card: the worker's card.
        crew: the agent's crew; `None` for an agent without a crew.
        tools: the agent's tools; `None` means its own.
        on_usage: called with the tokens of each call, including failed calls.
    """

    def __init__(
        self,
        agent: BaseAgent,
        *,
        card: Card,
        crew: Crew | None = None,
        tools: Sequence[BaseTool] | None = None,
        on_usage: OnUsage | None = None,
    ) -> None:
        self.agent = agent
        self.card = card
        self._crew = crew
        self._tools = tools
        self.on_usage = on_usage

    def __repr__(self) -> str:
        return f"AgentWorker({self.card.name!r})"

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas; the schema becomes the model of the task's output."""
        return frozenset({"json"})

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run a copy of the agent on a task; the answer is not streamed."""
        meter, done = UsageMeter(), None
        try:
            with crewai_errors(
                self.card.name,
                meter,
                has_run=lambda: self.acts and (meter.has_answered or acts_first([self.agent])),
            ):
                agent = self._copy(meter)
                async with _tools(agent, self._tools) as tools:
                    # A separate task: a cancel leaves CrewAI's event scopes open, but only in this task's
                    # context.
                    doing = asyncio.create_task(do_task(agent, _task(request, agent), tools, meter))
                    answer, missing = await doing
                    done = replace(read_answer(request.messages, answer, meter), missing=missing)
        finally:
            if self.on_usage is not None:
                self.on_usage(meter.metrics if done is None else counted(meter, done.usage))
        if request.stream:
            yield done.text
        yield done

    def _copy(self, meter: UsageMeter) -> BaseAgent:
        """Return a copy that can run in parallel with the agent and does not retry; the run retries."""
        agent = self.agent
        handler = ToolsHandler()
        handler.cache = agent.tools_handler.cache
        own: dict[str, Any] = {"agent_executor": None, "tools_handler": handler, "tools_results": []}
        own |= {"crew": self._crew, "max_retry_limit": 0, "allow_delegation": False}
        for name in _LLMS:
            llm = vars(agent).get(name)  # getattr would warn: one field is deprecated
            own |= {name: meter.copy_of(llm)} if isinstance(llm, BaseLLM) else {}
        return agent.model_copy(update={name: own[name] for name in own if name in type(agent).model_fields})


@asynccontextmanager
async def _tools(agent: BaseAgent, own: Sequence[BaseTool] | None) -> AsyncGenerator[list[BaseTool], None]:
    """Yield an agent's tools, also from its apps and MCP servers, then close the connections.

    CrewAI connects and disconnects with `asyncio.run`, which works only in a thread.
    """
    tools = list(own if own is not None else agent.tools or ())
    if not agent.apps and not agent.mcps:
        yield tools
        return
    remote = await to_thread.run_sync(_remote_tools, agent, abandon_on_cancel=True)
    resolver = getattr(agent, "_mcp_resolver", None)
    if resolver is not None:
        agent._mcp_resolver = None  # type: ignore[attr-defined]  # noqa: SLF001 - CrewAI would clean up in the loop
    try:
        yield [*tools, *remote]
    finally:
        if resolver is not None:
            with CancelScope(shield=True):
                await to_thread.run_sync(resolver.cleanup)


def _remote_tools(agent: BaseAgent) -> list[BaseTool]:
    tools = agent.get_platform_tools(agent.apps) if agent.apps else []
    if agent.mcps:
        served = agent.get_mcp_tools(agent.mcps)
        if not served:
            raise WorkerUnavailable("the agent's MCP servers offer no tool, or cannot be reached")
        tools += served
    return tools


def _task(request: Request, agent: BaseAgent) -> Task:
    """Return the step as a task, whose name shows the step in CrewAI's events.

    CrewAI prints both texts for a verbose agent, so they contain no control characters.
    """
    subtask, caller = " ".join(step_input_of(request).subtask.split()), request.caller
    name = subtask if len(subtask) <= _MAX_NAME else f"{subtask[:_MAX_NAME]}…"
    return Task(
        name=printable(name if caller is None else f"step {caller.path or caller.step}: {name}"),
        description=printable(prompt_text(request.messages)),
        expected_output=_EXPECTED,
        output_pydantic=_output(request.sampling.constraint),
        agent=agent,
    )


def _output(constraint: Constraint | None) -> type[BaseModel] | None:
    if constraint is None or isinstance(constraint.value, str):
        return None
    return create_model_from_schema(dict(constraint.value))
