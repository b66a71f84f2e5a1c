"""Creates the cards of workers for `as_worker`, and recognises objects that are already workers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypedDict

from podium.aio import connections_per_loop
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.workers import Card, Price, Worker, with_known_facts


class CardOptions(TypedDict, total=False):
    """Keyword arguments of `as_worker` for the worker's card: a whole card, or parts of it."""

    card: Card | None
    """The card of the worker; by default (`None`) it is created from the object and the parts below."""
    name: str | None
    """The worker's name in plans; by default (`None`) the object's own name."""
    description: str | None
    """The worker's skills; by default (`None`) the object's own description."""
    price: Price | None
    """The price of the worker's tokens.

    By default (`None`), Podium looks up the price if the object is a model with the endpoint URL of a known
    provider; otherwise the price is unknown.
    """
    labels: Iterable[str]
    """Properties that rules of a policy refer to; none by default."""


class ConductorFace(ABC):
    """An object of a host that has a conductor; each call of the object is a run of this conductor.

    An adapter registers its classes with `@ConductorFace.register`. `as_worker` then puts
    the conductor itself into the pool, so its steps share the limits of the outer run.
    """

    @property
    @abstractmethod
    def conductor(self) -> Conductor | HostedConductor:
        """The conductor of the object."""


def said_acts(thing: object) -> bool | None:
    """Return whether a host's object says that it may change something, or not: see `Worker.acts`.

    Returns:
        The attribute `acts`, which a class of the user's own may have; for the face of a conductor, whether
        its pool acts (a remote pool cannot be seen and may act); `None` for other objects.
    """
    if isinstance(thing, ConductorFace):
        return thing.conductor.acts if isinstance(thing.conductor, Conductor) else True
    said = getattr(thing, "acts", None)
    return said if isinstance(said, bool) else None


class CardMaker:
    """Creates the card of a host's object from the arguments of `as_worker`.

    Args:
        options: the arguments of `as_worker`.

    Raises:
        ConfigError: `card` is given together with other options, or `labels` is a single text.
        TypeError: an option is not in `CardOptions`.
    """

    def __init__(self, options: CardOptions) -> None:
        if unknown := options.keys() - CardOptions.__annotations__.keys():
            raise TypeError(f"as_worker does not accept {', '.join(sorted(unknown))}")
        labels = options.get("labels") or ()
        if isinstance(labels, str):
            raise ConfigError(f"labels are {labels!r}: give a set of texts")
        self._card = options.get("card")
        self._name = options.get("name")
        self._description = options.get("description")
        self._price = options.get("price")
        self._labels = frozenset(labels)
        parts = (self._name, self._description, self._price)
        self._has_parts = bool(self._labels) or any(part is not None for part in parts)
        if self._card is not None and self._has_parts:
            raise ConfigError(
                "pass either a card, or a name, description, price and labels: set them on the card"
            )

    def podium_worker(self, thing: object, *, acts: bool | None = None) -> Worker | None:
        """Return `thing` if it is a worker, or its conductor if it is a `ConductorFace`.

        Args:
            thing: the object.
            acts: the argument of `as_worker`.

        Returns:
            `None` if `thing` is another object of the host.

        Raises:
            ConfigError: the worker has its own card and `acts`, and card options or `acts` are given; or it
                is a hosted conductor.
        """
        worker = thing.conductor if isinstance(thing, ConductorFace) else thing
        if isinstance(worker, HostedConductor):
            raise ConfigError("a hosted conductor cannot be a worker: use a podium.ChatWorker with its model")
        if not isinstance(worker, Worker):
            return None
        if self._card is not None or self._has_parts:
            told = f"{type(worker).__name__} {worker.card.name!r} already has a card"
            raise ConfigError(f"{told}: set its name, description, price and labels where it is created")
        if acts is not None:
            raise ConfigError(f"{worker.card.name!r} is a worker of Podium: set `acts` where it is created")
        return worker

    def card(  # noqa: PLR0913 - one parameter for each fact of an object
        self,
        *,
        name: str,
        description: str = "",
        context_window: int | None = None,
        parts: frozenset[str] = frozenset(),
        concurrency: int | None = None,
        model: str = "",
        base_url: str = "",
    ) -> Card:
        """Return the given card, or a card from the given parts and the object's properties.

        If the endpoint's URL belongs to a known provider, a missing price or context window is looked up,
        as for a `ChatWorker`. The method also calls `podium.aio.connections_per_loop`, so that HTTP clients
        in objects of the host have separate connections for each event loop.

        Args:
            name: the object's own name; unprintable characters become spaces.
            description: the object's own description; line breaks become spaces.
            context_window: see `Card`.
            parts: content parts that it accepts in addition to text.
            concurrency: maximum number of calls at the same time.
            model: the model's name on its server.
            base_url: the URL of the model's endpoint; empty if unknown.

        Raises:
            ConfigError: the object has no name and no name is given, or the given name is invalid.
        """
        connections_per_loop()
        card = self._card or Card(
            name=_printable(name) if self._name is None else self._name,
            description=_one_line(description) if self._description is None else self._description,
            price=self._price,
            labels=self._labels,
            context_window=context_window,
            parts=parts,
            concurrency=concurrency,
        )
        return with_known_facts(card, base_url, model) if base_url and model else card


def base_url_of(*clients: object) -> str:
    """Return the first base URL of SDK clients, or of the clients inside them.

    Args:
        clients: the clients in order; `None` is skipped.

    Returns:
        The URL; empty if no client has one.
    """
    holders = [holder for client in clients for holder in (client, getattr(client, "_client", None))]
    urls = (getattr(holder, "base_url", None) for holder in holders)
    return next((str(url) for url in urls if url), "")


def _printable(name: str) -> str:
    clean = _one_line("".join(char if char.isprintable() else " " for char in name))
    if not clean:
        raise ConfigError("a worker needs a name: as_worker(..., name=...)")
    return clean


def _one_line(text: str) -> str:
    return " ".join(text.split())
