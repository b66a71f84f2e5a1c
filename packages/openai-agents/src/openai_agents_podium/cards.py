"""Cards of the SDK's agents, tools and models, for the planner."""

from typing import Any, Final

from agents import Agent, FunctionTool, Model

from podium.hosts import CardMaker
from podium.hosts.workers import base_url_of
from podium.workers import Card

_MAX_DESCRIPTION: Final = 300


def card_of(thing: Agent[Any] | FunctionTool | Model, maker: CardMaker) -> Card:
    """Return the card of an object of the SDK.

    An agent's description is its `handoff_description`, or else the beginning of its instructions.
    """
    if isinstance(thing, Agent):
        return maker.card(name=thing.name, description=thing.handoff_description or _instructions(thing))
    if isinstance(thing, FunctionTool):
        return maker.card(name=thing.name, description=thing.description)
    model = str(getattr(thing, "model", "") or "")
    url = base_url_of(getattr(thing, "_client", None))
    name = model or type(thing).__name__
    return maker.card(name=name, description="A chat model.", model=model, base_url=url)


def _instructions(agent: Agent[Any]) -> str:
    told = agent.instructions if isinstance(agent.instructions, str) else ""
    return told if len(told) <= _MAX_DESCRIPTION else f"{told[:_MAX_DESCRIPTION]}…"
