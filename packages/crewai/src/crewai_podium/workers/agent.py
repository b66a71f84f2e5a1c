"""Find reasons why answers of CrewAI's agents are incomplete: failed tools, reached iteration limits."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, Literal, Self

from anyio import CancelScope, to_thread
from crewai import Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.agents.tools_handler import ToolsHandler
from crewai.crews.crew_output import CrewOutput
from crewai.lite_agent_output import LiteAgentOutput
from crewai.llms.base_llm import BaseLLM
from crewai.tasks.llm_guardrail import LLMGuardrail
from crewai.tools.base_tool import BaseTool
from crewai.utilities.guardrail import GuardrailResult, process_guardrail
from pydantic import BaseModel, RootModel, ValidationError

from crewai_podium.cards import acts_first
from crewai_podium.events import tell_piece
from crewai_podium.usage import UsageMeter
from crewai_podium.workers.errors import crewai_errors, read_answer
from podium.errors import WorkerUnavailable
from podium.hosts import GuardrailTripped, text_of
from podium.secrets import printable
from podium.types import Completion, Constraint
from podium.types.messages import prompt_text, storable
from podium.workers import Card, Request, Worker, step_input_of

_MAX_QUOTE: Final = 300


def missing_from_crew(output: object, agents: Iterable[BaseAgent]) -> str:
    """Return why a crew's output is incomplete, as text; empty if it is complete."""
    tasks = output.tasks_output if isinstance(output, CrewOutput) else ()
    failed = [line for task in tasks for line in _failed_tools(task.tool_failures, task.messages)]
    return "; ".join([*failed, *(line for agent in agents for line in _forced(agent))])


def _failed_tools(failures: Iterable[Any], messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a text for each tool whose last call failed; a later successful call cancels a failure."""
    last = {message.get("name"): str(message.get("content")) for message in messages if _is_result(message)}
    why: dict[str, str] = {}
    for record in failures:
        result = last.get(record.tool_name)
        if result is None or record.failure.message in result:
            why[record.tool_name] = storable(record.failure.message)[:_MAX_QUOTE]
    return [f"its tool {name!r} failed: {reason}" for name, reason in why.items()]


def _is_result(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "tool"


def _forced(agent: BaseAgent) -> list[str]:
    """Return a text if CrewAI demanded an answer from the agent because `max_iter` was reached."""
    state = getattr(agent.agent_executor, "state", None)
    if state is None or getattr(state, "iterations", 0) < agent.max_iter:
        return []
    return [f"agent {agent.role!r} reached max_iter={agent.max_iter} and answered with what it had"]


_AGAIN: Final = (
    "Your previous answer was not accepted: {error}\n\nYour previous answer:\n{answer}\n\n"
    "Do the task again, so that the answer is accepted."
)


async def do_task(
    agent: BaseAgent, task: Task, tools: list[BaseTool], meter: UsageMeter
) -> tuple[Any, str | None]:
    """Return the answer that the agent's guardrail accepts, and the missing parts of the answer.

    If the guardrail refuses an answer, the agent answers again and is shown the reason, up to
    `guardrail_max_retries` times. If the guardrail returns a value, this value replaces the answer.
    """
    guardrail: Any = getattr(agent, "guardrail", None)
    failures, messages = list[Any](), list[Mapping[str, Any]]()
    context, tries = None, 0
    while True:
        answer: Any = await agent.aexecute_task(task, context, tools)
        if isinstance(answer, RootModel) and isinstance(answer.root, str):
            answer = answer.root  # an output that is not JSON
        failures += agent.last_tool_failures  # CrewAI forgets them at the next attempt
        messages += getattr(agent, "last_messages", ())
        missing = "; ".join([*_failed_tools(failures, messages), *_forced(agent)]) or None
        if guardrail is None or not isinstance(answer, str | BaseModel):
            return answer, missing
        finish = meter.finish_reason  # the answer's own: an LLM guardrail calls the LLM, too
        checked = await _check(agent, guardrail, answer, meter, tries)
        meter.finish_reason = finish
        if checked.success:
            return answer if checked.result is None else _accepted(checked.result), missing
        most: int = agent.guardrail_max_retries  # type: ignore[attr-defined] # of every agent with a guardrail
        if tries >= most:
            told = f"the agent's guardrail refused the answer, after {most} retries: {checked.error}"
            raise GuardrailTripped(told, maybe_paid=True)
        tries, context = tries + 1, _AGAIN.format(error=checked.error, answer=text_of(answer))


async def _check(
    agent: BaseAgent, guardrail: Any, answer: object, meter: UsageMeter, tries: int
) -> GuardrailResult:
    """Call the guardrail in a thread, because it may call an LLM."""
    output = LiteAgentOutput(
        raw=text_of(answer),
        pydantic=answer if isinstance(answer, BaseModel) else None,
        agent_role=agent.role,
        usage_metrics=meter.metrics.model_dump(),
        messages=list(getattr(agent, "last_messages", ())),
    )
    llm: Any = agent.llm
    check: Any = LLMGuardrail(guardrail, llm) if isinstance(guardrail, str) else guardrail
    return await to_thread.run_sync(
        lambda: process_guardrail(output, check, tries, event_source=agent, from_agent=agent),
        abandon_on_cancel=True,
    )


def _accepted(result: object) -> object:
    """Return the answer that a guardrail returned: a text, or the text of a whole output."""
    return result.raw if isinstance(result, LiteAgentOutput) else result


_EXPECTED: Final = "All that your part asks for, complete."
_LLMS: Final = ("llm", "function_calling_llm")
_MAX_NAME: Final = 80


class AgentWorker(Worker):
    """Runs a copy of an agent for each step.

    An answer is partial if the last call of a tool failed, or the agent reached its `max_iter`. An answer
    that the agent's guardrail refuses is retried up to `guardrail_max_retries` times; then the step fails
    with `guardrail_tripped`.
    """

    def __init__(
        self,
        agent: BaseAgent,
        *,
        card: Card,
        crew: Crew | None = None,
        tools: Sequence[BaseTool] | None = None,
    ) -> None:
        self.agent = agent
        self.card = card
        self._crew = crew
        self._tools = tools

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas; the schema becomes the model of the task's output."""
        return frozenset({"json"})

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run a copy of the agent on a task; the answer is not streamed."""
        meter = UsageMeter()
        with crewai_errors(
            self.card.name,
            meter,
            has_run=lambda: self.acts and (meter.has_answered or acts_first([self.agent])),
        ):
            agent = self._copy(meter)
            task = _task(request, agent)
            llm: Any = agent.llm
            whole = task.output_pydantic is not None and getattr(llm, "stream", False)
            if whole:  # OpenAI's client parses each piece, and raises for one that is not JSON
                llm.stream = False
            async with _tools(agent, self._tools) as tools:
                # A separate task: a cancel leaves CrewAI's event scopes open, but only in its context.
                doing = asyncio.create_task(do_task(agent, task, tools, meter))
                answer, missing = await doing
                done = replace(read_answer(request.messages, answer, meter), missing=missing)
            if whole:
                tell_piece(agent, task, done.text, "")
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
    """Return the type of a task's output: it shows the schema to the model, and the run checks the answer."""
    if constraint is None or isinstance(constraint.value, str):
        return None
    schema = dict(constraint.value)

    class Output(RootModel[Any]):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return deepcopy(schema)  # callers change it

        @classmethod
        def model_validate_json(cls, json_data: Any, **_: Any) -> Self:
            try:
                return super().model_validate_json(json_data)
            except ValidationError:
                return cls(json_data)

    return Output
