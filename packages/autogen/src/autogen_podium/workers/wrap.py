"""Make workers and planners from AutoGen objects."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Unpack

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool

from autogen_podium.turns import cancelling
from autogen_podium.workers.agent import AgentWorker
from autogen_podium.workers.model import ModelWorker
from autogen_podium.workers.objects import card_of, may_act
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions, ConductorFace, ToolWorker, faces
from podium.planners import Planner
from podium.workers import Card, Worker

Participant = ChatAgent | Team | BaseTool[Any, Any] | ChatCompletionClient | Worker
"""The objects that can be workers."""
_MOST_TURNS: Final = 25
"""Maximum turns of tool calls within a step of a model client with tools."""


def as_worker(
    thing: Participant,
    *,
    tools: Sequence[BaseTool[Any, Any]] = (),
    acts: bool | None = None,
    **options: Unpack[CardOptions],
) -> Worker:
    """Return an AutoGen object as a worker.

    An agent or a team is reset before each step, and runs one step at a time. A human is shown the input of
    the step. An agent with handoffs is refused. The agent, team or client of a conductor becomes its
    conductor, which runs within the limits of the outer run. A tool gets its arguments from the subtask. A
    model client gets messages. A worker of Podium is returned unchanged.

    Args:
        thing: the object.
        tools: tools that a model client may call within its step, in up to 25 turns, as an `AssistantAgent`.
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), model clients do
            not act, and tools do, unless an MCP server says otherwise. Agents and teams do if a part of them
            does, or cannot be seen: a person, a workbench, an agent of the user's own class. A class of the
            user's own says otherwise with the attribute `acts = False`.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker, or already has a card and `acts`; or both a card and parts
            of one are given.
    """
    maker = CardMaker(options)
    if tools and (isinstance(thing, ConductorFace) or not isinstance(thing, ChatCompletionClient)):
        raise ConfigError(f"{thing!r:.80} is not a model client: give its tools to the agent itself")
    if (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    if tools:
        worker: Worker = _with_tools(thing, tools, maker)
        worker.acts = any(map(may_act, tools)) if acts is None else acts
        return worker
    worker = _worker(thing, maker)
    worker.acts = may_act(thing) if acts is None else acts
    return worker


def _with_tools(thing: Any, tools: Sequence[BaseTool[Any, Any]], maker: CardMaker) -> AgentWorker:
    """Return a worker that runs a new agent with the model client and the tools in each step."""
    card = card_of(thing, maker)

    def make() -> AssistantAgent:
        return AssistantAgent(
            re.sub(r"\W|^(?=\d)", "_", card.name),
            thing,
            tools=list(tools),
            system_message=None,
            max_tool_iterations=_MOST_TURNS,
            reflect_on_tool_use=True,
        )

    return AgentWorker(make(), card=card, make=make)


def _worker(thing: Any, maker: CardMaker) -> Worker:
    if isinstance(thing, ChatAgent | Team):
        return AgentWorker(thing, card=card_of(thing, maker))
    if isinstance(thing, ChatCompletionClient):
        return ModelWorker(thing, card=card_of(thing, maker))
    if isinstance(thing, BaseTool):
        return AutoGenTool(thing, card=card_of(thing, maker))
    raise ConfigError(f"{thing!r:.80} is not an AutoGen object: wrap a function in a FunctionTool")


def as_planner(model: ChatCompletionClient | Planner | Worker, **options: Any) -> Planner:
    """Return a planner that calls a model client or a worker, or the given planner.

    Args:
        model: the model client, worker or planner.
        options: options of `podium.ChatPlanner`, such as `workflows`.

    Raises:
        ConfigError: `model` is none of these, or is a planner with options.
    """
    if not isinstance(model, ChatCompletionClient | Worker | Planner):
        raise ConfigError(f"{model!r:.80} cannot plan: give a model client, or a podium.Planner")
    return faces.planner_of(model, as_worker, options)


conductor_of = partial(faces.conductor_of, as_worker=as_worker, as_planner=as_planner)
"""Makes the conductor of a class, of objects of the host."""


class AutoGenTool(ToolWorker):
    """Calls a tool with the arguments in the subtask."""

    def __init__(self, tool: BaseTool[Any, Any], *, card: Card) -> None:
        super().__init__(tool.schema.get("parameters", {}), self._run, card=card)
        self.tool = tool

    async def _run(self, arguments: dict[str, Any]) -> str:
        token = CancellationToken()
        return self.tool.return_value_as_string(await cancelling(token, self.tool.run_json(arguments, token)))
