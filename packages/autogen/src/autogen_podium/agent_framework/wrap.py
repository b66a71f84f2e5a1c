"""Make workers and planners from objects of Agent Framework."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

from agent_framework import (
    Agent,
    BaseChatClient,
    SupportsAgentRun,
    SupportsChatGetResponse,
    Workflow,
    WorkflowAgent,
)

from autogen_podium.agent_framework.acts import is_wrapped, may_act
from autogen_podium.agent_framework.workers import AgentWorker, ClientWorker, WorkflowWorker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions, ConductorFace, faces
from podium.planners import Planner
from podium.workers import Worker

Participant = SupportsAgentRun | SupportsChatGetResponse[Any] | Workflow | Worker
"""The objects that can be workers."""


def as_worker(
    thing: Participant,
    *,
    tools: Sequence[Any] = (),
    acts: bool | None = None,
    **options: Unpack[CardOptions],
) -> Worker:
    """Return an agent, a workflow or a chat client of Agent Framework as a worker.

    A `ConductorAgent` or `ConductorChatClient` without layers of its own (context providers, middleware,
    tools, instructions) becomes its conductor, whose steps share the limits of the outer run. A workflow runs
    one step at a time, each from the state that it had before the first step. A worker of Podium is returned
    unchanged.

    Args:
        thing: the object.
        tools: tools that a chat client may call within its step, as in an `Agent`; the client's
            `function_invocation_configuration` limits the calls.
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), chat clients do
            not act. Agents and workflows do if a part of them does, or cannot be seen: middleware, a context
            provider, an MCP server, an executor. Functions do, unless their `additional_properties` have
            MCP's `readOnlyHint` or `idempotentHint`.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker, or already has a card and `acts`; or both a card and parts
            of one are given.
    """
    maker = CardMaker(options)
    if tools and (isinstance(thing, ConductorFace) or not isinstance(thing, SupportsChatGetResponse)):
        raise ConfigError(f"{thing!r:.80} is not a chat client: give its tools to the agent itself")
    if not _is_layered(thing) and (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    if tools:
        client: Any = thing
        card = _client_worker(client, maker).card
        thing = Agent(client, name=card.name, description=card.description, tools=list(tools))
        maker = CardMaker({"card": card})
    worker = _worker(thing, maker)
    worker.acts = may_act(thing) if acts is None else acts
    return worker


def _worker(thing: Any, maker: CardMaker) -> Worker:
    if isinstance(thing, Workflow | WorkflowAgent):
        return _workflow_worker(thing, maker)
    if isinstance(thing, SupportsAgentRun):
        name, words = thing.name or type(thing).__name__, thing.description or ""
        return AgentWorker(thing, card=maker.card(name=name, description=words))
    if isinstance(thing, SupportsChatGetResponse):
        return _client_worker(thing, maker)
    raise ConfigError(f"{thing!r:.80} is not an agent, workflow or chat client of Agent Framework")


def _workflow_worker(thing: Workflow | WorkflowAgent, maker: CardMaker) -> WorkflowWorker:
    try:
        agent = thing.as_agent() if isinstance(thing, Workflow) else thing
    except ValueError as error:  # its first executor does not accept messages
        raise ConfigError(f"workflow {thing.name!r} cannot do a subtask: {error}") from error
    if agent.context_providers:
        raise ConfigError(
            f"agent {agent.name!r} has context providers, which a step ignores: pass its workflow"
        )
    name, words = agent.name or "workflow", agent.description or ""
    return WorkflowWorker(agent.workflow, card=maker.card(name=name, description=words, concurrency=1))


def _client_worker(client: SupportsChatGetResponse[Any], maker: CardMaker) -> ClientWorker:
    model = str(getattr(client, "model", None) or "")
    url = str(client.service_url() or "") if isinstance(client, BaseChatClient) else ""
    name = getattr(client, "name", None) or model or type(client).__name__
    words = getattr(client, "description", None) or ""
    card = maker.card(name=str(name), description=words, model=model, base_url=url)
    return ClientWorker(client, card=card)


def _is_layered(thing: object) -> bool:
    """Return whether the object has middleware, tools or the like, which its conductor would bypass."""
    options = getattr(thing, "default_options", None) or {}
    said = any(value for name, value in options.items() if name not in ("model", "tool_choice"))
    return said or is_wrapped(thing) or is_wrapped(getattr(thing, "client", None))


def as_planner(model: SupportsChatGetResponse[Any] | Worker | Planner, **options: Any) -> Planner:
    """Return a planner that calls a chat client or a worker, or the given planner.

    Args:
        model: the chat client, worker or planner.
        options: options of `podium.ChatPlanner`, such as `workflows`.

    Raises:
        ConfigError: `model` is none of these, or is a planner with options.
    """
    return faces.planner_of(model, as_worker, options)


conductor_of = partial(faces.conductor_of, as_worker=as_worker, as_planner=as_planner)
"""Makes the conductor of a class, of objects of the host."""
