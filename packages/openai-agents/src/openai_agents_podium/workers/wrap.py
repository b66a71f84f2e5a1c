"""Make workers and planners from objects of the SDK."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from agents import Agent, FunctionTool, Model, RunConfig, Tool

from openai_agents_podium.cards import card_of
from openai_agents_podium.workers.acts import may_act, model_of
from openai_agents_podium.workers.agent import MAX_TURNS, AgentRunOptions, AgentWorker, NestedAgentWorker
from openai_agents_podium.workers.model import ModelWorker
from openai_agents_podium.workers.tool import FunctionToolWorker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions, ConductorFace
from podium.planners import ChatPlanner, Planner, RulePlanner
from podium.workers import Worker

Participant = Agent[Any] | FunctionTool | Model | Worker
"""The objects that can be workers."""


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
        tools: tools that a model may call within its step, in an agent of the SDK.
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
    if tools and isinstance(thing, ConductorFace | Worker):
        raise ConfigError(f"{thing!r:.80} has workers of its own: give the tools to them")
    if (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    if tools:
        if not isinstance(thing, Model):
            raise ConfigError(f"{thing!r:.80} is not a model: give its tools to the agent itself")
        card = card_of(thing, maker)
        maker, thing = CardMaker({"card": card}), Agent(name=card.name, model=thing, tools=[*tools])
    worker = _worker(thing, maker, AgentRunOptions(max_turns, run_config, context))
    worker.acts = may_act(thing, run_config) if acts is None else acts
    return worker


def _worker(thing: Any, maker: CardMaker, how: AgentRunOptions) -> Worker:
    if isinstance(thing, Agent):
        model = model_of(thing, how.run_config)
        conductor = model.conductor if isinstance(model, ConductorFace) else None
        if not isinstance(conductor, Conductor):
            return AgentWorker(thing, card=card_of(thing, maker), options=how)
        card = card_of(thing, maker)
        card = replace(card, labels=card.labels | conductor.card.labels)
        return NestedAgentWorker(thing, model, conductor, card=card, options=how)
    if isinstance(thing, FunctionTool):
        return FunctionToolWorker(thing, card=card_of(thing, maker), context=how.context)
    if isinstance(thing, Model):
        return ModelWorker(thing, card=card_of(thing, maker))
    raise ConfigError(
        f"{thing!r:.80} is not an agent, function tool or model of the OpenAI Agents SDK: "
        "decorate a function with function_tool"
    )


def as_planner(model: Model | Planner | Worker | None, **options: Any) -> Planner:
    """Return a planner that calls a model or a worker, or the given planner.

    Args:
        model: the model, worker or planner; `None` plans by rules.
        options: options of `podium.ChatPlanner`.

    Raises:
        ConfigError: `model` is none of these.
    """
    if model is None:
        return RulePlanner()
    if isinstance(model, Planner):
        return model
    if isinstance(model, Model | Worker):
        return ChatPlanner(as_worker(model), **options)
    raise ConfigError(f"{model!r:.80} cannot plan: give a model of the SDK, a podium.Planner, or None")
