"""A chat model of LangChain's as the planner."""

from typing import Any

from langchain_core.runnables import Runnable

from langchain_podium.cards import card_of
from langchain_podium.workers.chat_model import ChatModelWorker
from podium.errors import ConfigError
from podium.hosts import CardMaker
from podium.plan_text import Spelling
from podium.planners import ChatPlanner, Show
from podium.types import Sampling
from podium.workers import Card, Price, Worker


def as_planner(  # noqa: PLR0913 - as ChatPlanner takes them
    model: Runnable[Any, Any] | Worker,
    *,
    card: Card | None = None,
    name: str | None = None,
    price: Price | None = None,
    spelling: Spelling = "rows",
    show: Show = "cards",
    shuffle: bool = False,
    examples: int | None = None,
    constrain: bool = True,
    sampling: Sampling | None = None,
) -> ChatPlanner:
    """Return a planner that asks a chat model of LangChain's for the plan.

    Args:
        model: the model, bare or bound, configured, with retries or fallbacks.
        card: names and prices the planner; `None` derives it from the model, and from:
        name: what events and results call it; `None` takes the model's own.
        price: what its tokens cost; `None` looks it up, as `as_worker` does.
        spelling: as for `podium.ChatPlanner`, as all that follows.
        show: how workers are shown.
        shuffle: whether they are shown in another order in every run.
        examples: how many example plans the prompt shows, from 0 to 4; `None` takes the default.
        constrain: whether the server is to hold the text to its spelling, where it can.
        sampling: how to write; `None` leaves it to the model.

    Raises:
        ConfigError: it is no chat model, or there is a card and parts of another.
    """
    maker = CardMaker({"card": card, "name": name, "price": price})
    worker = maker.podium_worker(model)
    if worker is None:
        given: Any = model
        if not isinstance(given, Runnable):
            raise ConfigError(
                f"{given!r:.80} is neither a chat model nor a planner: give one of them, or as_planner(...)"
            )
        worker = ChatModelWorker(given, card=card_of(given, maker))
    return ChatPlanner(
        worker,
        spelling=spelling,
        show=show,
        shuffle=shuffle,
        examples=examples,
        constrain=constrain,
        sampling=sampling,
    )
