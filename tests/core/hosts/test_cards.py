"""The checks that every `as_worker` makes."""

from typing import Any, Unpack

import pytest

from podium import Card, ChatWorker, Conductor, Endpoint, ScriptedWorker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions, ConductorFace
from podium.planners import FixedPlanner
from podium.workers import Price, Worker


class Face:
    """A host's object that a conductor answers for."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor


class Keeper:
    """A host's object that has a conductor, and does more than ask it."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor


ConductorFace.register(Face)


def as_worker(thing: object, **options: Unpack[CardOptions]) -> Worker | Card:
    """Return what an adapter would: a worker of Podium's, or the card of a host's object."""
    maker = CardMaker(options)
    own = maker.podium_worker(thing)
    facts: dict[str, Any] = {"context_window": 9, "parts": frozenset({"file"}), "concurrency": 1}
    return own or maker.card(name="the\nthing ", description="Does\n things. ", **facts)


def conductor() -> Conductor:
    """Return one."""
    return Conductor(FixedPlanner(""), [ScriptedWorker("a", "x")])


def test_a_card_is_derived_with_what_is_said_in_place() -> None:
    """Names and descriptions of hosts are put on one line; those given stay."""
    facts: dict[str, Any] = {"context_window": 9, "parts": frozenset({"file"}), "concurrency": 1}
    assert as_worker(object()) == Card(name="the thing", description="Does things.", **facts)
    price = Price(input=1, output=2)
    said = as_worker(object(), name="n", description="", price=price, labels=iter(["eu"]))
    assert said == Card(name="n", price=price, labels=frozenset({"eu"}), **facts)
    card = Card(name="whole")
    assert as_worker(object(), card=card) is card


def test_a_card_beside_parts_of_one_is_refused() -> None:
    """One of the two would not count."""
    with pytest.raises(ConfigError, match="either a card"):
        as_worker(object(), card=Card(name="a"), description="")
    with pytest.raises(ConfigError, match="already has a card"):
        as_worker(ScriptedWorker("a", "x"), labels=["eu"])


def test_what_is_no_name_is_refused() -> None:
    """An empty one of the host's, one given that cannot be printed, labels that are one text."""
    with pytest.raises(ConfigError, match="needs a name"):
        CardMaker({}).card(name="\n \t")
    with pytest.raises(ConfigError, match="printable"):
        as_worker(object(), name="a\nb")
    with pytest.raises(ConfigError, match="labels"):
        as_worker(object(), labels="eu")
    with pytest.raises(TypeError, match="nam"):
        as_worker(object(), nam="x")  # type: ignore[call-arg]


def test_podium_s_own_workers_pass_and_faces_are_their_conductor() -> None:
    """What only holds a conductor is not replaced by it."""
    worker, inner = ScriptedWorker("a", "x"), conductor()
    assert as_worker(worker) is worker
    assert as_worker(inner) is inner
    assert as_worker(Face(inner)) is inner
    assert isinstance(as_worker(Keeper(inner)), Card)
    endpoint = Endpoint("http://127.0.0.1:9/v1")
    assert isinstance(as_worker(ChatWorker("m", endpoint=endpoint)), ChatWorker)
