"""A LangChain chat model as the planner."""

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


def as_planner(  # noqa: PLR0913 - the arguments of ChatPlanner
    model: Runnable[Any, Any] | Worker,
    *,
    card: Card | None = None,
    name: str | None = None,
    price: Price | None = None,
    spelling: Spelling = "rows",
    show: Show = "cards",
    examples: int | None = None,
    reasons: bool = False,
    workflows: bool = False,
    constrain: bool = True,
    sampling: Sampling | None = None,
) -> ChatPlanner:
    """Return a planner that asks a LangChain chat model for the plan.

    Args:
        model: the model, bare or bound, configured, with retries or fallbacks.
        card: the name and the price of the planner; `None` derives them from the model, `name` and `price`.
        name: the name in events and results; `None` uses the model's own.
        price: the price of its tokens; `None` looks it up, as `as_worker` does.
        spelling: see `podium.ChatPlanner`, which has all arguments below.
        show: how workers are shown.
        examples: the number of example plans in the prompt, from 0 to 4; `None` means the default.
        reasons: ask for a line with the reason of each step; the text is then not constrained.
        workflows: whether the model may write maps, conditions, blocks and loops.
        constrain: whether the server constrains the text to the spelling, if it can.
        sampling: the sampling; `None` leaves it to the model.

    Raises:
        ConfigError: `model` is not a chat model, or both a card and parts of one are given.
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
        examples=examples,
        reasons=reasons,
        workflows=workflows,
        constrain=constrain,
        sampling=sampling,
    )
