"""A LlamaIndex LLM as the planner, and the conductors of this package."""

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.llms import LLM
from llama_index.core.settings import Settings

from llama_index_podium.cards import card_of
from llama_index_podium.workers import as_worker
from llama_index_podium.workers.llm import LLMWorker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import CardMaker
from podium.hosts.workers import CONDUCTOR_OPTIONS, make_conductor
from podium.planners import ChatPlanner, Planner
from podium.workers import Price, Worker


def as_planner(
    llm: LLM | Worker, *, name: str | None = None, price: Price | None = None, **options: Any
) -> ChatPlanner:
    """Return a planner that asks an LLM for the plan.

    Args:
        llm: the model.
        name: the name in events and results; `None` uses the model's own.
        price: the price of its tokens; `None` looks it up, as `as_worker` does.
        options: further options of `podium.ChatPlanner`.

    Raises:
        ConfigError: `llm` is not an LLM, or already has a card with its name and price.
    """
    maker = CardMaker({"name": name, "price": price})
    worker = maker.podium_worker(llm)
    if worker is None:
        if not isinstance(llm, LLM):
            raise ConfigError(
                f"{llm!r:.80} is neither an LLM nor a planner: give one of them, or as_planner(...)"
            )
        worker = LLMWorker(llm, card=card_of(llm, maker))
    return ChatPlanner(worker, **options)


def check_options(face: str, unknown: Mapping[str, object], *, takes: Sequence[str]) -> None:
    """Raise an error for unknown options.

    Args:
        face: the name of the caller's class, for the error.
        unknown: the unknown options.
        takes: the names of the known options.

    Raises:
        TypeError: there are unknown options. If they are options of `from_defaults`, the message says so.
    """
    if unknown:
        told = f"{face} does not accept {', '.join(sorted(unknown))}: its options are {', '.join(takes)}"
        if unknown.keys() <= set(CONDUCTOR_OPTIONS):
            told += f"; {', '.join(sorted(unknown))} is for the Conductor, or for {face}.from_defaults"
        raise TypeError(told)


def conductor_of(
    planner: LLM | Planner | None,
    workers: Sequence[Any],
    *,
    face: str = "conductor_of",
    takes: Sequence[str] = (),
    **options: Any,
) -> Conductor:
    """Return a conductor with a planner and workers.

    Args:
        planner: an LLM, or a planner of Podium; `None` uses `Settings.llm`.
        workers: all objects that `as_worker` accepts.
        face: the name of the caller's function, for errors.
        takes: further options of the caller's function, besides the options of `Conductor`, for errors.
        options: further options of `podium.Conductor`; `fallback_planner` may be an LLM.

    Raises:
        TypeError: an option is not an option of `Conductor`.
        ConfigError: `planner` is neither an LLM nor a planner; or see `Conductor`.
    """
    llm = Settings.llm if planner is None else planner
    pool = [as_worker(worker) for worker in workers]
    return make_conductor(llm, pool, options, as_planner=as_planner, face=face, takes=takes)
