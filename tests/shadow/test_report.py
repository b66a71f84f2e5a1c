"""What is said of a candidate, and how sure that is."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from random import Random

import pytest
from shadow.conftest import NewPairs

from podium import ScriptedWorker
from podium.errors import WorkerFailed, WorkerUnavailable
from podium.journal import MemoryCache
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Card, Price, Request
from podium_shadow import Pair, Report, Side, Spent, Tally, report
from podium_shadow.judge import Judge
from podium_shadow.statistics import Estimate, paired_means, quantile, share

pytestmark = pytest.mark.anyio

TALLY = Tally(tally_id="t", shadow="ours", at=0.0, seen=40, sampled=4, busy=1)


def test_a_share_has_wilsons_interval() -> None:
    """As in the table of Brown, Cai and DasGupta's paper, and by hand; the ends are exact."""
    ten = share(1, 10, 0.95).share
    assert (ten.value, ten.low, ten.high) == pytest.approx((0.1, 0.017876, 0.404150), abs=1e-5)
    half = share(50, 100, 0.95).share
    assert (half.low, half.high) == pytest.approx((0.403832, 0.596168), abs=1e-5)
    assert (share(0, 20, 0.95).share.low, share(20, 20, 0.95).share.high) == (0.0, 1.0)
    assert share(0, 0, 0.95).share == Estimate(None)
    assert share(50, 100, 0.99).share.low < half.low  # type: ignore[operator]


@pytest.mark.parametrize(("n", "low", "high"), [(6, 1, 6), (100, 40, 61)])
def test_a_median_has_the_exact_interval(n: int, low: int, high: int) -> None:
    """Between the order statistics of the published tables (Conover 1999, A3; Hollander and Wolfe)."""
    estimate = quantile([float(value) for value in range(n, 0, -1)], 0.5, 0.95)
    assert estimate == Estimate((n + 1) / 2, float(low), float(high))


@pytest.mark.long
def test_the_bootstrap_covers_as_often_as_it_says() -> None:
    """Of many samples, about nine in ten intervals of 90 % hold the true mean."""
    draw, held = Random(3), 0  # noqa: S311
    for number in range(100):
        pairs = [(1.0, 1.0 + draw.expovariate(1.0)) for _ in range(60)]
        low_high = paired_means(pairs, 0.9, number)[0]
        held += (low_high.low or 0.0) <= 1.0 <= (low_high.high or 0.0)
    assert 82 <= held <= 97


def side(answer: str, seconds: float, calls: int, usage: Usage, cost: float) -> Side:
    return Side(status="ok", answer=answer, seconds=seconds, spent=Spent(calls=calls, usage=usage, cost=cost))


def pair(number: int, primary: str = "yes", candidate: str = "yes", shadow: str = "ours") -> Pair:
    one, other = side(primary, 1.0, 1, Usage(8, 2), 0.1), side(candidate, 2.0, 3, Usage(20, 10), 0.15)
    names = {"pair_id": f"p{number}", "shadow": shadow, "question": "Is it?"}
    return Pair(**names, at=float(number), primary=one, candidate=other)


async def report_of(pairs: Sequence[Pair], **how: object) -> Report:
    kept = NewPairs()
    async with kept:
        for each in pairs:
            await kept.put(each, TALLY)
    (found,) = await report(kept, **how)  # type: ignore[arg-type]
    return found


async def test_both_sides_are_compared() -> None:
    """Failures, times, calls, tokens, cost: of the pairs in which each is known."""
    unknown = Side(status="ok", answer="yes", seconds=None)
    found = await report_of(
        [
            *(pair(number) for number in range(8)),
            replace(pair(8), candidate=Side(status="timeout", seconds=9.0, spent=Spent(calls=1))),
            replace(pair(9), primary=Side(status="failed", seconds=0.1)),
            replace(pair(10), candidate=Side(status="failed", seconds=0.1)),
            replace(pair(11), primary=unknown),
        ]
    )
    assert (found.shadow, found.pairs, found.first, found.last) == ("ours", 12, 0.0, 11.0)
    failed = (found.primary_failed, found.candidate_failed, found.candidate_timeouts)
    assert [each.count for each in failed] == [1, 1, 1]
    assert (found.equal.count, found.equal.of) == (9, 9)
    assert (found.seconds.of, found.seconds.ratio.value) == (8, 2.0)
    assert (found.seconds.primary_p95.value, found.seconds.candidate_median.value) == (1.0, 2.0)
    assert (found.calls.of, found.calls.primary, found.calls.candidate) == (9, 1.0, pytest.approx(25 / 9))
    assert (found.tokens.of, found.tokens.ratio.value) == (8, 3.0)
    assert found.cost.difference.value == pytest.approx(0.05)
    assert (found.requests["seen"], found.requests["sampled"], found.requests["busy"]) == (40, 4, 1)
    assert (found.judged, found.scores) == (None, None)


async def test_equal_means_but_for_looks() -> None:
    found = await report_of([pair(0, "**Forty-two.**", "  forty-TWO "), pair(1, "-1", "1")])
    assert (found.equal.count, found.equal.of) == (1, 2)


def answer(request: Request, name: str) -> str:
    return request.messages[-1].text.split(f"<answer-{name}-")[1].split(f"</answer-{name}-")[0]


def prefers(better: str) -> ScriptedWorker:
    """Return a judge who knows the better answer, wherever it stands, and is paid."""

    def reply(request: Request) -> Completion:
        a, b = (answer(request, name) for name in "ab")
        said = "A" if better in a else "B" if better in b else "**TIE**"
        return Completion(f"{said}: it is right.", usage=Usage(10, 5))

    price = Price(input=100_000.0, output=0.0)
    return ScriptedWorker(Card(name="judge", price=price, version="1"), reply)


async def test_a_judge_is_not_told_whose_answers_they_are() -> None:
    """Either may stand first, verdicts are counted for the right side, and equal answers cost no call."""
    judge = prefers("good")
    pairs = [pair(n, f"bad {n}", f"good {n}") for n in range(20)]
    pairs += [pair(n, f"good {n}", f"bad {n}") for n in range(20, 30)]
    pairs += [pair(n, f"odd {n}", f"even {n}") for n in range(30, 34)]
    pairs += [pair(n) for n in range(34, 40)]
    judged = (await report_of(pairs, judge=Judge(judge))).judged
    assert judged is not None
    assert (judged.judge, judged.calls, judged.failed, judged.unjudged) == ("judge", 34, 0, 0)
    assert (judged.better.count, judged.worse.count, judged.ties.count, judged.ties.of) == (20, 10, 10, 40)
    assert (judged.usage, judged.cost) == (Usage(340, 170), pytest.approx(34.0))
    assert 5 < sum("good" in answer(request, "a") for request in judge.requests[:34]) < 25
    texts = [request.messages[-1].text for request in judge.requests]
    assert not any("candidate" in text.lower() or "primary" in text.lower() for text in texts)


async def test_calls_of_a_judge_are_bounded() -> None:
    """Over all shadows; what was not judged is counted, and nobody is asked twice of one pair."""
    judge, kept = ScriptedWorker("judge", "TIE"), NewPairs()
    for number in range(6):
        shadow = "ours" if number % 2 else "theirs"
        await kept.put(pair(number, "one", f"other {number}", shadow=shadow), TALLY)
    found = await report(kept, judge=Judge(judge, calls=4))
    assert len(judge.requests) == 4
    judged = [each.judged for each in found if each.judged is not None]
    assert [(each.calls, each.unjudged) for each in judged] == [(3, 0), (1, 2)]


async def test_a_judge_who_fails_is_counted() -> None:
    """Neither an error nor words that are no verdict stop the report; what it cost is then unknown."""
    replies = {"p 1": WorkerUnavailable("down"), "p 2": "I cannot say.", "p 3": "<think>A or B?</think> b"}
    pairs = [pair(n, f"p {n}", f"c {n}") for n in (1, 2, 3)]
    judged = (await report_of(pairs, judge=Judge(ScriptedWorker("judge", replies)))).judged
    assert judged is not None
    assert (judged.failed, judged.unjudged, judged.better.of, judged.calls) == (2, 2, 1, 3)
    assert judged.cost is None


async def test_known_verdicts_are_not_paid_again() -> None:
    """A judge that states a version is asked once of the same two answers."""
    cache, pairs = MemoryCache(), [pair(n, f"bad {n}", f"good {n}") for n in range(5)]
    first = (await report_of(pairs, judge=Judge(prefers("good"), cache=cache))).judged
    judge = prefers("good")
    again = (await report_of(pairs, judge=Judge(judge, cache=cache))).judged
    assert first is not None
    assert again is not None
    assert (again.calls, again.known, again.cost, judge.requests) == (0, 5, 0.0, [])
    assert again.better == first.better


async def test_a_scorer_that_fails_is_told() -> None:
    def broken(question: str, answer: str) -> float:
        raise KeyError(answer)

    for scorer, told in ((broken, "the scorer raised KeyError"), (lambda q, a: nan, "returned nan")):
        with pytest.raises(WorkerFailed, match=told):
            await report_of([pair(0)], scorer=scorer)
