"""The checks of every `as_worker`: cards and names, and objects that are workers of Podium's already."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypedDict

from podium.aio import connections_per_loop
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.workers import Card, Price, Worker, with_known_facts


class CardOptions(TypedDict, total=False):
    """What `as_worker` is told of the worker's card: a whole card, or parts of one."""

    card: Card | None
    """What the planner is told of the worker; `None`, as it is, derives it from the object, and from the
    parts below."""
    name: str | None
    """What plans call the worker; `None`, as it is, takes the object's own name."""
    description: str | None
    """What it is good at; `None`, as it is, takes what the object says of itself."""
    price: Price | None
    """What its tokens cost; `None`, as it is, looks it up where the object is a model that says its
    endpoint's URL, and it is a known provider's; else it is unknown."""
    labels: Iterable[str]
    """Properties that rules of a policy refer to; none, as it is."""


class ConductorFace(ABC):
    """An object of a host whose every call is a run of its `conductor`.

    An adapter registers its own classes with `@ConductorFace.register`. `as_worker` then puts
    the conductor itself into a pool, so that its steps share the limits of the run around it.
    """

    @property
    @abstractmethod
    def conductor(self) -> Conductor | HostedConductor:
        """The conductor that answers."""


class CardMaker:
    """Makes the card of a host's object, with what `as_worker` was told of it.

    Args:
        options: what `as_worker` was told.

    Raises:
        ConfigError: there is a card and parts of another, or labels are one text.
        TypeError: an option is none of `CardOptions`.
    """

    def __init__(self, options: CardOptions) -> None:
        if unknown := options.keys() - CardOptions.__annotations__.keys():
            raise TypeError(f"as_worker takes no {', '.join(sorted(unknown))}")
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
                "a name, description, price or labels beside a card do not count: put them on it"
            )

    def podium_worker(self, thing: object) -> Worker | None:
        """Return a worker of Podium's as it is, and a face of a conductor as that conductor.

        Returns:
            `None` where `thing` is an object of the host's.

        Raises:
            ConfigError: it has a card already and another was given, or it stands for a hosted conductor.
        """
        worker = thing.conductor if isinstance(thing, ConductorFace) else thing
        if isinstance(worker, HostedConductor):
            told = "a hosted conductor works as any model of a server does"
            raise ConfigError(f"{told}: make it a podium.ChatWorker")
        if not isinstance(worker, Worker):
            return None
        if self._card is not None or self._has_parts:
            told = f"{type(worker).__name__} {worker.card.name!r} has a card already"
            raise ConfigError(f"{told}: give it its name, description, price and labels where it is made")
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
        """Return the card that was given, or one made of the object's facts and the parts given.

        A price or context window that the card lacks is looked up, as for a `ChatWorker`, if the
        endpoint's URL is that of a known provider. From this call on, the HTTP clients in foreign objects
        keep connections for each event loop (`podium.aio.connections_per_loop`).

        Args:
            name: the object's own name; characters that cannot be printed become spaces.
            description: what the object says of itself; put on one line.
            context_window: as on `Card`, like all that follows.
            parts: content parts it takes besides text.
            concurrency: calls it takes at the same time.
            model: the model's name on its server.
            base_url: the URL of the model's endpoint; empty where the object does not say it.

        Raises:
            ConfigError: the object has no name and none was given, or the name given is none for a card.
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
    """Return the base URL that a client of an SDK, or the client in it, says it has.

    Args:
        clients: objects in the order in which they are asked; `None` is passed over.

    Returns:
        Empty where none says any.
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
