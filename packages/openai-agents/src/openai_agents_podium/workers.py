"""Make workers and planners from objects of the SDK."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Unpack

from agents import (
    Agent,
    FileSearchTool,
    FunctionTool,
    Model,
    ModelProvider,
    RunConfig,
    Tool,
    WebSearchTool,
)

from openai_agents_podium.agent import MAX_TURNS, AgentWorker, FunctionToolWorker
from openai_agents_podium.calls import ModelWorker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions, ConductorFace, faces
from podium.hosts.workers import base_url_of, hints_act, said_acts
from podium.planners import Planner
from podium.workers import Card, Worker

Participant = Agent[Any] | FunctionTool | Model | Worker
"""The objects that can be workers."""
_READ: Final = (Model, FileSearchTool, WebSearchTool)
_MAX_DESCRIPTION: Final = 300


def as_worker(
    thing: Participant,
    *,
    tools: Sequence[Tool] = (),
    max_turns: int | None = MAX_TURNS,
    run_config: RunConfig | None = None,
    context: Any = None,
    acts: bool | None = None,
    **options: Unpack[CardOptions],
) -> Worker:
    """Return an object of the SDK as a worker.

    The SDK's runner runs an agent without a session; the agent may have tools, guardrails, an output type and
    hooks. If the model of the agent is a conductor, this conductor runs within the limits of the outer run. A
    function tool gets its arguments from the subtask. A model gets messages. A `ConductorModel` becomes its
    conductor. A worker of Podium is returned unchanged.

    Args:
        thing: the object.
        tools: tools that a model may call within its step, as an agent of the SDK.
        max_turns: maximum number of the model calls of an agent, or of a model with tools, per step; `None`
            sets no limit.
        run_config: the run config of an agent; `None` uses the SDK's default.
        context: the context object for tools, hooks and guardrails.
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), models do not act;
            tools do, except hosted searches and MCP tools with `readOnlyHint` or `idempotentHint`; agents do
            if one of their tools does, if they have an MCP server or a class of their own, or if the model
            that they use, also by `run_config`, is a conductor whose pool does.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker (an agent with handoffs, a tool that needs approval) or
            already has a card and `acts`, or both a card and parts of one are given.
    """
    maker = CardMaker(options)
    if tools and (isinstance(thing, ConductorFace) or not isinstance(thing, Model)):
        raise ConfigError(f"{thing!r:.80} is not a model that is asked alone: give the tools to its agents")
    if (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    if not isinstance(thing, Agent | FunctionTool | Model):
        told = "is not an agent, function tool or model of the OpenAI Agents SDK"
        raise ConfigError(f"{thing!r:.80} {told}: decorate a function with function_tool")
    card = _card_of(thing, maker)
    if isinstance(thing, Model) and tools:
        thing = Agent(name=card.name, model=thing, tools=[*tools])
    if isinstance(thing, Agent):
        if isinstance(model := _model_of(thing, run_config), ConductorFace):
            card = replace(card, labels=card.labels | model.conductor.card.labels)
        how: Any = {"max_turns": max_turns, "run_config": run_config, "context": context}
        worker: Worker = AgentWorker(thing, card=card, **how)
    elif isinstance(thing, FunctionTool):
        worker = FunctionToolWorker(thing, card=card, context=context)
    else:
        worker = ModelWorker(thing, card=card)
    worker.acts = _may_act(thing, run_config) if acts is None else acts
    return worker


def as_planner(model: Model | Planner | Worker, **options: Any) -> Planner:
    """Return a planner that calls a model or a worker, or the given planner.

    Args:
        model: the model, worker or planner.
        options: options of `podium.ChatPlanner`, such as `workflows`.

    Raises:
        ConfigError: `model` is none of these, or is a planner with options.
    """
    return faces.planner_of(model, as_worker, options)


conductor_of = partial(faces.conductor_of, as_worker=as_worker, as_planner=as_planner)
"""Makes the conductor of a class, of objects of the host."""


def _card_of(thing: Agent[Any] | FunctionTool | Model, maker: CardMaker) -> Card:
    """Return the card of an object of the SDK.

    An agent's description is its `handoff_description`, or else the beginning of its instructions.
    """
    if isinstance(thing, Agent):
        told = thing.instructions if isinstance(thing.instructions, str) else ""
        told = told if len(told) <= _MAX_DESCRIPTION else f"{told[:_MAX_DESCRIPTION]}…"
        return maker.card(name=thing.name, description=thing.handoff_description or told)
    if isinstance(thing, FunctionTool):
        return maker.card(name=thing.name, description=thing.description)
    model = str(getattr(thing, "model", "") or "")
    url = base_url_of(getattr(thing, "_client", None))
    name = model or type(thing).__name__
    return maker.card(name=name, description="A chat model.", model=model, base_url=url)


def _may_act(thing: Any, config: RunConfig | None = None) -> bool:
    """Return whether a call of an object may change something: see `podium.Worker.acts`.

    It may if a part does, or cannot be seen, such as an MCP server or an agent of the user's own class.
    """
    if (said := said_acts(thing)) is not None:
        return said
    if isinstance(thing, Agent):
        hidden = type(thing) is not Agent or bool(thing.mcp_servers or thing.handoffs)
        return hidden or any(_may_act(part, config) for part in (*thing.tools, _model_of(thing, config)))
    if isinstance(thing, FunctionTool):
        if (agent := getattr(thing, "_agent_instance", None)) is not None:  # made by `Agent.as_tool`
            return _may_act(agent, config)
        hints = thing.mcp_annotations
        return hints is None or hints_act(hints.model_dump(by_alias=True))
    return not (thing is None or isinstance(thing, _READ))


def _model_of(agent: Agent[Any], config: RunConfig | None) -> object:
    """Return the model that the SDK's runner uses for an agent.

    Returns:
        `None` if a provider of the SDK finds the model, because then it is not a conductor; the provider, if
        its `get_model` raises.
    """
    config = config or RunConfig()
    named = agent.model if config.model is None else config.model
    provider: ModelProvider | None = config.model_provider
    if isinstance(named, Model):
        return named
    if provider is None or type(provider).__module__.startswith("agents."):
        return None
    try:
        return provider.get_model(named)
    except Exception:  # noqa: BLE001 - of the user's own class; the run raises it again
        return provider
