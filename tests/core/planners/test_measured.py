"""Planners that use the measured rates on cards."""

from dataclasses import replace
from datetime import date

import pytest

from podium.planners import ChatPlanner, Planner, PlanRequest, PlanText, RulePlanner
from podium.planners.chat import MAX_KINDS
from podium.types.messages import read_query
from podium.usage import estimate_tokens
from podium.workers import Card, Kind, MeasuredRate, Price, ScriptedWorker
from podium.workers.rates import kind_of

pytestmark = pytest.mark.anyio

DAY = date(2026, 11, 22)
RIDDLES = Kind("riddles", ("Solve the riddle: what has keys?", "Solve the riddle: what has hands?"))
VERBS = Kind("verbs", ("Conjugate the verb swim.", "Conjugate the verb run."))


def measured(kind: Kind, rate: float, answers: int = 5) -> MeasuredRate:
    """Return a rate."""
    return MeasuredRate(
        kind=kind, rate=rate, low=0.1, high=0.9, right=rate * answers, answers=answers, measured_on=DAY
    )


def card(name: str, riddles: float | None, verbs: float | None, description: str = "") -> Card:
    """Return a card with the rates that are not `None`."""
    given = ((RIDDLES, riddles), (VERBS, verbs))
    rates = tuple(measured(kind, rate) for kind, rate in given if rate is not None)
    return Card(name=name, description=description, measured=rates)


POOL = (card("alpha", 0.2, 0.9), card("beta", 0.7, 0.1), card("gamma", None, None))


async def _planned(planner: Planner, question: str, cards: tuple[Card, ...] = POOL) -> PlanText:
    request = PlanRequest(query=read_query(question), cards=cards, max_steps=5)
    (whole,) = [piece async for piece in planner.plan(request) if isinstance(piece, PlanText)]
    return whole


async def test_parts_go_to_the_worker_with_the_best_rate_on_their_kind() -> None:
    """The reason names the kind."""
    planned = await _planned(RulePlanner(), "Solve the riddle: what has teeth?")
    assert '"worker": 1' in planned.text
    assert planned.why == "the question has one part: beta for its kind 'riddles'"
    assert '"worker": 0' in (await _planned(RulePlanner(), "Conjugate the verb sing.")).text


async def test_of_equal_rates_the_cheapest_worker_is_chosen() -> None:
    """A worker of unknown price is the last."""
    cards = [card(name, 0.5, None) for name in ("unknown", "dear", "cheap")]
    pool = (
        cards[0],
        replace(cards[1], price=Price(input=3, output=9)),
        replace(cards[2], price=Price(input=1, output=2)),
    )
    assert '"worker": 2' in (await _planned(RulePlanner(), "Solve the riddle: what has teeth?", pool)).text


def test_the_kind_of_a_question() -> None:
    """Found by rare common words; a question that is similar to none has no kind."""
    kinds = (RIDDLES, VERBS)
    assert kind_of("Please solve the riddle: what has teeth?", kinds) == RIDDLES
    assert kind_of("Conjugate: the verb to be", kinds) == VERBS
    for other in ("Who wrote Faust?", "", "what has", "\ud800"):
        assert kind_of(other, kinds) is None
    assert kind_of("Solve the riddle: what has keys?", ()) is None


def _told(cards: tuple[Card, ...], question: str = "Why?", show: str = "cards") -> str:
    request = PlanRequest(query=read_query(question), cards=cards, max_steps=5)
    planner = ChatPlanner(ScriptedWorker("boss", ""), show=show)  # type: ignore[arg-type]
    messages = planner.messages(request)
    return "\n".join(message.text for message in messages)


def test_the_prompt_shows_what_was_measured() -> None:
    """Rate, count and day; nothing where nothing was measured, or where cards are hidden."""
    told = _told(POOL)
    assert "Worker 0: alpha. no description; right on riddles 20% (5), verbs 90% (5)\n" in told
    assert "Worker 2: gamma. no description\n" in told
    assert "measured on so many answers (2026-11-22)." in told
    bare = tuple(replace(each, measured=()) for each in POOL)
    for silent in (_told(bare), _told(POOL, show="ordinals")):
        assert "right on" not in silent
        assert "ercentages" not in silent


def test_of_many_kinds_the_prompt_shows_the_most_similar() -> None:
    """So that it stays short: three workers take at most 120 tokens, with forty kinds too."""
    many = [Kind(f"kind {n}", (f"Topic{n} asks for thing{n}.",)) for n in range(40)]
    cards = tuple(
        Card(name=name, measured=tuple(measured(kind, 0.5) for kind in many)) for name in ("a", "b", "c")
    )
    told = _told(cards, "Topic7 asks for thing9.")
    assert told.count("right on") == 3
    assert told.count("%") == 3 * MAX_KINDS
    assert "kind 7 50% (5)" in told
    assert "kind 9 50% (5)" in told
    bare = tuple(replace(each, measured=()) for each in cards)
    assert estimate_tokens(told) <= estimate_tokens(_told(bare, "Topic7 asks for thing9.")) + 120
