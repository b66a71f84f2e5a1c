"""A worker that calls a CrewAI tool."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from anyio import to_thread
from crewai import Agent, Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool
from crewai.utilities.llm_utils import create_llm

from crewai_podium.cards import card_of, may_act
from crewai_podium.workers.agent import AgentWorker
from crewai_podium.workers.crew import CrewWorker
from crewai_podium.workers.errors import read_error
from crewai_podium.workers.llm import LLMWorker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions, ToolWorker, faces, text_of
from podium.planners import Planner
from podium.workers import Card, StepInput, Worker


def tool_worker(tool: BaseTool, card: Card) -> ToolWorker:
    """Return a worker that runs a tool in a thread. A cancel cannot stop the thread."""

    async def call(arguments: dict[str, Any]) -> str:
        return text_of(await to_thread.run_sync(lambda: tool.run(**arguments), abandon_on_cancel=True))

    return ToolWorker(tool.args_schema.model_json_schema(), call, card=card, reader=read_error)


def as_worker(
    thing: BaseAgent | Crew | BaseLLM | BaseTool | Worker,
    *,
    inputs: Callable[[StepInput], Mapping[str, Any]] | None = None,
    tools: Sequence[BaseTool] = (),
    acts: bool | None = None,
    **options: Unpack[CardOptions],
) -> Worker:
    """Return a CrewAI object as a worker.

    For each step, a copy of an agent executes a task, so an agent may execute several steps at the same time.
    A crew is copied, and the copy is kicked off. An LLM gets messages. A tool gets its arguments from the
    subtask. A `ConductorLLM` becomes its conductor. A worker of Podium is returned unchanged.

    Args:
        thing: the object.
        inputs: returns a crew's inputs for a step; `None` puts the step's whole prompt into the crew's only
            input.
        tools: tools that an LLM may call within its step: up to 25 turns (CrewAI's `max_iter`) of an agent of
            CrewAI with this LLM.
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), LLMs do not act,
            and tools do. Agents and crews do if a part of them does, or cannot be seen: a tool, an app, an
            MCP server, an agent of the user's own class.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker, or already has a card and `acts`; or both a card and parts
            of one are given.
    """
    maker = CardMaker(options)
    if inputs is not None and not isinstance(thing, Crew):
        raise ConfigError(f"{thing!r:.80} is not a crew: only a crew has inputs")
    if (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    if not isinstance(thing, BaseAgent | Crew | BaseLLM | BaseTool):
        raise ConfigError(f"{thing!r:.80} is not an agent, crew, LLM or tool of CrewAI")
    card = card_of(thing, maker)
    if tools:
        if not isinstance(thing, BaseLLM):
            raise ConfigError(f"{thing!r:.80} is not an LLM: give its tools to the agent itself")
        goal = card.description or "Do the task."
        thing = Agent(role=card.name, goal=goal, backstory="Uses tools.", llm=thing, tools=[*tools])
    worker = _worker(thing, card, inputs)
    worker.acts = may_act(thing) if acts is None else acts
    return worker


def _worker(
    thing: BaseAgent | Crew | BaseLLM | BaseTool,
    card: Card,
    inputs: Callable[[StepInput], Mapping[str, Any]] | None,
) -> Worker:
    if isinstance(thing, BaseAgent):
        return AgentWorker(thing, card=card)
    if isinstance(thing, Crew):
        return CrewWorker(thing, card=card, inputs=inputs)
    if isinstance(thing, BaseTool):
        return tool_worker(thing, card)
    return LLMWorker(thing, card=card)


def as_planner(model: BaseLLM | str | Worker | Planner, **options: Any) -> Planner:
    """Return a planner that calls an LLM, which may be given by its name, or a worker; or the given planner.

    Args:
        model: the LLM, worker or planner.
        options: options of `podium.ChatPlanner`, such as `workflows`.

    Raises:
        ConfigError: `model` is none of these, or is a planner with options.
    """
    asked = create_llm(model) if isinstance(model, str) else model
    if not isinstance(asked, BaseLLM | Worker | Planner):
        raise ConfigError(f"{model!r:.80} cannot plan: give an LLM, its name, or a podium.Planner")
    return faces.planner_of(asked, as_worker, options)
