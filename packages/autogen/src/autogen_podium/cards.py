"""Cards of AutoGen's agents, teams, tools and model clients, for the planner."""

from typing import Any

from autogen_agentchat.base import ChatAgent, Team
from autogen_core.models import ChatCompletionClient, ModelInfo
from autogen_core.tools import BaseTool

from podium.hosts import CardMaker
from podium.hosts.workers import base_url_of
from podium.workers import Card, Worker


def card_of(thing: ChatAgent | Team | ChatCompletionClient | BaseTool[Any, Any], maker: CardMaker) -> Card:
    """Return the card of an AutoGen object.

    Args:
        thing: the object.
        maker: has the card options of `as_worker`.

    Raises:
        ConfigError: the object has no name and none was given.
    """
    if isinstance(thing, ChatAgent | Team):
        return maker.card(name=thing.name, description=thing.description, concurrency=1)
    if isinstance(thing, BaseTool):
        return maker.card(name=thing.name, description=thing.description)
    info = thing.model_info
    model = str(create_args(thing).get("model") or "")
    name = model or info.get("family") or type(thing).__name__
    parts = frozenset({"image_url"} if info["vision"] else ())
    url = base_url_of(getattr(thing, "_client", None))
    return maker.card(name=str(name), description="A chat model.", parts=parts, model=model, base_url=url)


def create_args(client: ChatCompletionClient) -> dict[str, Any]:
    """Return the arguments that a client sends with every request, such as its model; empty if unknown."""
    arguments = getattr(client, "_create_args", None)
    return dict(arguments) if isinstance(arguments, dict) else {}


def takes_system_messages(client: ChatCompletionClient) -> bool:
    """Return whether a client's model accepts several system messages, anywhere in a conversation."""
    return bool(client.model_info.get("multiple_system_messages", False))


def model_info(workers: tuple[Worker, ...]) -> ModelInfo:
    """Return the capabilities of a conductor.

    The conductor accepts tools and images if any of its workers accepts them. It has any other capability
    only if all its workers have it.
    """
    return ModelInfo(
        vision=any("image_url" in worker.card.parts for worker in workers),
        function_calling=any(worker.takes_tools for worker in workers),
        json_output=False,
        structured_output=all("json" in worker.constraint_kinds for worker in workers),
        family="unknown",
        multiple_system_messages=all(_takes_system_messages(worker) for worker in workers),
    )


def _takes_system_messages(worker: Worker) -> bool:
    client = getattr(worker, "client", None)
    return not isinstance(client, ChatCompletionClient) or takes_system_messages(client)
