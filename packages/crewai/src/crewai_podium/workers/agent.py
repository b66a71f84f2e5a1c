"""A worker that is one of CrewAI's agents.

It owns how a step becomes an agent's task: each call is a task of its own, done by a copy of
the agent, since an agent does one thing at a time. What the copy is shown of the run is what
the request says and nothing else; its memory and knowledge are its own.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, Literal

from crewai import Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.tools_handler import ToolsHandler
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool
from crewai.utilities.pydantic_schema_utils import create_model_from_schema
from pydantic import BaseModel

from crewai_podium.faults import calling
from crewai_podium.spending import Meter, Spent
from crewai_podium.texts import prompt_of, text_of
from podium.errors import WorkerBroken
from podium.types import Completion, Constraint, estimate_usage
from podium.workers import Card, Request, Worker, step_input_of

_EXPECTED: Final = "All that your part asks for, complete."
_LLMS: Final = ("llm", "function_calling_llm")
_MOST_NAMED: Final = 80


class AgentWorker(Worker):
    """Has an agent do the subtask.

    Args:
        agent: who does it.
        card: what the planner is told of it.
        crew: whose agent it is; `None` for one that works alone.
        tools: what it may use; `None` means its own.
        spent: is told what each call has spent, however it ended.
    """

    def __init__(
        self,
        agent: BaseAgent,
        *,
        card: Card,
        crew: Crew | None = None,
        tools: Sequence[BaseTool] | None = None,
        spent: Spent | None = None,
    ) -> None:
        self.agent = agent
        self.card = card
        self._crew = crew
        self._tools = tools
        self._spent = spent

    def __repr__(self) -> str:
        return f"AgentWorker({self.card.name!r})"

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """A JSON schema, which becomes the output that its task is to have."""
        return frozenset({"json"})

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Have a copy of the agent do a task; the answer comes in one piece."""
        meter = Meter()
        try:
            with calling(self.card.name, lambda: meter.usage):
                agent = self._copy(meter)
                task = _task(request, agent)
                # In a context of its own: what a cancel leaves open of CrewAI's events stays in there.
                doing = asyncio.create_task(_do(agent, task, self._tools_of(agent)))
                text = text_of(await doing)
        finally:
            if self._spent is not None:
                self._spent(meter.metrics)
        if not text.strip():
            raise WorkerBroken(
                f"worker {self.card.name!r} returned no text", maybe_paid=True, usage=meter.usage
            )
        if request.stream:
            yield text
        yield Completion(text, usage=meter.usage or estimate_usage(request.messages, text))

    def _copy(self, meter: Meter) -> BaseAgent:
        """Return the agent as it is, but able to work beside itself, and once: who calls it retries."""
        agent = self.agent
        handler = ToolsHandler()
        handler.cache = agent.tools_handler.cache
        own: dict[str, Any] = {"agent_executor": None, "tools_handler": handler, "tools_results": []}
        own |= {"crew": self._crew, "max_retry_limit": 0, "allow_delegation": False}
        for name in _LLMS:
            llm = vars(agent).get(name)  # the attribute of one of them warns that it is old
            own |= {name: meter.copy_of(llm)} if isinstance(llm, BaseLLM) else {}
        return agent.model_copy(update={name: own[name] for name in own if name in type(agent).model_fields})

    def _tools_of(self, agent: BaseAgent) -> list[BaseTool]:
        tools = list(self._tools if self._tools is not None else agent.tools or ())
        if agent.apps:
            tools += agent.get_platform_tools(agent.apps)
        if agent.mcps:
            tools += agent.get_mcp_tools(agent.mcps)
        return tools


async def _do(agent: BaseAgent, task: Task, tools: list[BaseTool]) -> Any:
    return await agent.aexecute_task(task, None, tools)


def _task(request: Request, agent: BaseAgent) -> Task:
    """Return the step as a task, whose name says in events which step it is."""
    subtask, caller = " ".join(step_input_of(request).subtask.split()), request.caller
    name = subtask if len(subtask) <= _MOST_NAMED else f"{subtask[:_MOST_NAMED]}…"
    return Task(
        name=name if caller is None else f"step {caller.step}: {name}",
        description=prompt_of(request.messages),
        expected_output=_EXPECTED,
        output_pydantic=_output(request.sampling.constraint),
        agent=agent,
    )


def _output(constraint: Constraint | None) -> type[BaseModel] | None:
    if constraint is None or isinstance(constraint.value, str):
        return None
    return create_model_from_schema(dict(constraint.value))
