"""A slow call is given another beside it; one of them counts, and both are billed."""

from typing import Any

import anyio
import pytest
from core.actors import Act, Actor, answering, never, plan_of, writing
from core.virtual_clock import BACKEND

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, WorkerRefused, WorkerUnavailable
from podium.execution import Hedge, Retry
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import AttemptFailed, Event, Outcome, StepDelta, StepEnded, StepStarted
from podium.workers import Card, Pool, Price, Request, Worker
from podium.workers.call_history import CallHistory, CallRecord

pytestmark = pytest.mark.anyio

PLAN = plan_of((0, "do it", ()))
PRICE = Price(input=10.0, output=10.0)
HEDGED = Retry(fallbacks={"a": ["b"]}, hedge=Hedge(seconds=5.0))


@pytest.fixture
def anyio_backend() -> object:
    """Let waiting take no time."""
    return BACKEND


async def _told(workers: list[Worker] | Pool, retry: Retry = HEDGED, **options: Any) -> list[Event]:
    conductor = Conductor(FixedPlanner(PLAN), workers, retry=retry, **options)
    return [event async for event in conductor.stream(PLAN)]


def _outcome(events: list[Event]) -> Outcome:
    return next(event.outcome for event in events if isinstance(event, StepEnded))


def _calls(events: list[Event]) -> list[tuple[str, int, float]]:
    return [(event.worker, event.attempt, event.at) for event in events if isinstance(event, StepStarted)]


def _failing(after: float, error: Exception) -> Act:
    async def act(request: Request) -> Any:
        await anyio.sleep(after)
        raise error
        yield

    return act


async def test_a_slow_call_is_overtaken() -> None:
    """The stand-in's answer counts; the other is stopped, billed and told."""
    slow, quick = Actor(Card(name="a", price=PRICE), never), Actor("b", answering("B", latency=1.0))
    events = await _told([slow, quick])
    assert _calls(events) == [("a", 1, 0.0), ("b", 2, 5.0)]
    outcome = _outcome(events)
    assert (outcome.status, outcome.text, outcome.worker, outcome.attempts) == ("ok", "B", "b", 2)
    assert (outcome.seconds, outcome.maybe_paid, slow.stopped) == (6.0, True, 1)
    first, second = outcome.calls
    assert first.problem is not None
    assert (first.problem.code, first.maybe_paid, second.problem) == ("hedged", True, None)
    assert first.cost is not None
    assert first.cost > 0
    failed = [event for event in events if isinstance(event, AttemptFailed)]
    assert [(event.call, event.wait) for event in failed] == [(first, None)]


async def test_the_first_call_may_still_win() -> None:
    """The second is stopped then."""
    slow, slower = Actor("a", answering("A", latency=8.0)), Actor("b", never)
    outcome = _outcome(await _told([slow, slower]))
    assert (outcome.text, outcome.worker, outcome.attempts, outcome.seconds) == ("A", "a", 1, 8.0)
    assert [call.problem and call.problem.code for call in outcome.calls] == [None, "hedged"]
    assert slower.stopped == 1


async def test_a_quick_call_is_alone() -> None:
    """Nothing is hedged that ends in time, or has begun to write."""
    quick, other = Actor("a", answering("A", latency=4.0)), Actor("b", never)
    assert _outcome(await _told([quick, other])).calls == ()
    writer = Actor("a", writing("one", "two", "three", pause=4.0))
    assert _outcome(await _told([writer, other])).text == "onetwothree"
    assert not other.requests


async def test_pieces_are_held_back_until_it_is_clear_whose_they_are() -> None:
    """While two calls run neither is heard; then the winner's text comes in one piece."""
    slow, quick = Actor("a", writing("a1", "a2", pause=7.0)), Actor("b", writing("b1", "b2", pause=3.0))
    events = await _told([slow, quick])
    assert [(e.attempt, e.text, e.at) for e in events if isinstance(e, StepDelta)] == [(2, "b1b2", 11.0)]


async def test_a_call_that_is_left_alone_is_heard() -> None:
    """When one of two fails, the other's pieces are sent on as they come."""
    slow, other = (
        Actor("a", _failing(7.0, WorkerUnavailable("down"))),
        Actor("b", writing("b1", "b2", "b3", pause=1.5)),
    )
    events = await _told([slow, other])
    deltas = [(e.attempt, e.text, e.at) for e in events if isinstance(e, StepDelta)]
    assert deltas == [(2, "b1", 7.0), (2, "b2", 8.0), (2, "b3", 9.5)]
    outcome = _outcome(events)
    assert [call.problem and call.problem.code for call in outcome.calls] == ["worker_unavailable", None]


async def test_a_hedge_that_fails_leaves_the_first_alone() -> None:
    """Its failing is told, and the slow answer counts."""
    slow, other = Actor("a", answering("A", latency=9.0)), Actor("b", _failing(1.0, WorkerRefused("no")))
    events = await _told([slow, other])
    assert _outcome(events).text == "A"
    failed = [event for event in events if isinstance(event, AttemptFailed)]
    assert [(event.attempt, event.at, event.wait) for event in failed] == [(2, 6.0, None)]


async def test_when_both_fail_the_step_goes_on() -> None:
    """The budget covers both, and one call is left of three."""
    acts = [_failing(7.0, WorkerUnavailable("down")), answering("A")]
    slow, other = Actor("a", lambda r: acts.pop(0)(r)), Actor("b", _failing(1.0, WorkerUnavailable("down")))  # noqa: PLW0108
    events = await _told([slow, other])
    assert [(name, number) for name, number, _ in _calls(events)][:2] == [("a", 1), ("b", 2)]
    assert len(_calls(events)) == 3
    assert [event.attempt for event in events if isinstance(event, AttemptFailed)] == [2, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"retry": Retry(attempts=1, hedge=Hedge(seconds=5.0))},
        {"limits": Limits(calls=1)},
        {"limits": Limits(output_tokens=6000)},
    ],
    ids=["attempts", "calls", "tokens"],
)
async def test_a_hedge_must_fit(options: dict[str, Any]) -> None:
    """Without budget for another call the slow one is waited for."""
    slow, other = Actor("a", answering("A", latency=50.0)), Actor(Card(name="b", price=PRICE), never)
    outcome = _outcome(await _told([slow, other], **options))
    assert (outcome.text, outcome.calls) == ("A", ())
    assert not other.requests


async def test_without_a_stand_in_the_same_worker_is_asked_twice() -> None:
    """A second request to one server may find it quicker; a worker with one slot has none free."""
    acts = [never, answering("A")]
    worker = Actor("a", lambda request: acts.pop(0)(request))  # noqa: PLW0108
    outcome = _outcome(await _told([worker], Retry(hedge=Hedge(seconds=5.0))))
    assert (outcome.text, outcome.attempts) == ("A", 2)
    alone = Actor(Card(name="a", concurrency=1), answering("A", latency=50.0))
    assert _outcome(await _told([alone], Retry(hedge=Hedge(seconds=5.0)))).calls == ()


async def test_a_forbidden_stand_in_does_not_hedge() -> None:
    """The same worker does, since nobody else may see the step."""
    acts = [never, answering("A")]
    worker = Actor("a", lambda request: acts.pop(0)(request))  # noqa: PLW0108
    other = Actor("b", answering("B"))
    outcome = _outcome(await _told([worker, other], policy=Policy(denied=frozenset({"b"}))))
    assert (outcome.text, outcome.worker) == ("A", "a")
    assert not other.requests


async def test_a_slot_taken_for_a_hedge_is_given_back() -> None:
    """Whoever wins, the other worker can be called again."""
    slow, quick = Actor("a", never), Actor(Card(name="b", concurrency=1), answering("B", latency=1.0))
    pool = Pool([slow, quick])
    for _ in range(3):
        assert _outcome(await _told(pool)).text == "B"


async def test_slow_is_what_its_latest_calls_were_not() -> None:
    """With enough of them the percentile counts, in place of the fixed time."""
    pool = Pool([Actor("a", answering("A", latency=3.0)), Actor("b", answering("B"))])
    for _ in range(20):
        pool.history(0).add(CallRecord(1.0, ok=True))
    assert [at for _, _, at in _calls(await _told(pool))] == [0.0, 1.0]


def test_patience_is_told_from_good_calls() -> None:
    """Calls that failed say nothing of how long an answer takes."""
    hedge, history = Hedge(percentile=50.0, seconds=9.0, samples=4), CallHistory()
    for seconds in (1.0, 2.0, 3.0):
        history.add(CallRecord(seconds, ok=True))
        history.add(CallRecord(100.0, ok=False))
    assert hedge.patience(history) == 9.0
    history.add(CallRecord(4.0, ok=True))
    assert 2.0 <= hedge.patience(history) <= 3.0


@pytest.mark.parametrize("options", [{"percentile": 0}, {"percentile": 100}, {"seconds": 0}, {"samples": 0}])
def test_a_wrong_setting_is_refused(options: dict[str, Any]) -> None:
    """Whatever cannot be meant is said at once."""
    with pytest.raises(ConfigError, match=f"Hedge.{next(iter(options))}"):
        Hedge(**options)


async def test_a_run_that_is_cancelled_stops_both() -> None:
    """Neither goes on, and both are billed."""
    slow, other = Actor("a", never), Actor("b", never)
    outcome = _outcome(await _told([slow, other], limits=Limits(step_seconds=20.0)))
    assert (slow.stopped, other.stopped) == (1, 1)
    assert [call.problem and call.problem.code for call in outcome.calls] == ["worker_timeout"] * 2


async def test_both_may_answer_at_once() -> None:
    """One counts; the other is billed as what it came to."""
    slow, quick = Actor("a", answering("A", latency=6.0)), Actor("b", answering("B", latency=1.0))
    outcome = _outcome(await _told([slow, quick]))
    assert outcome.status == "ok"
    assert sorted(str(call.problem and call.problem.code) for call in outcome.calls) == ["None", "hedged"]
