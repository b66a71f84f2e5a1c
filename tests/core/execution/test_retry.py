"""Which calls are made again, when and by whom, also after an answer that nobody can use, and their bills."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import anyio
import pytest
from core.actors import Actor, answering, in_turn, never, plan_of, problem_of, writing
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Card, Conductor, Limits, Pool, Price, Retry, ScriptedWorker
from podium.config.variant import retry_within
from podium.errors import ConfigError, WorkerBroken, WorkerRefused, WorkerUnavailable
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import AttemptFailed, Completion, Event, Outcome, StepEnded, StepStarted
from podium.usage import Usage
from podium.workers import Worker

pytestmark = pytest.mark.anyio

DOWN = WorkerUnavailable("down")
PLAN = plan_of((0, "do it", ()))
PRICE = Price(input=10.0, output=10.0)


def conductor(workers: list[Worker] | Pool, retry: Retry | None = None, **options: Any) -> Conductor:
    return Conductor(FixedPlanner(PLAN), workers, retry=retry, **options)


async def told(conductor: Conductor, plan: object = PLAN) -> list[Event]:
    return [event async for event in conductor.stream(plan)]  # type: ignore[arg-type]


def started(events: list[Event]) -> list[tuple[str, int, float]]:
    return [(event.worker, event.attempt, event.at) for event in events if isinstance(event, StepStarted)]


def outcome_of(events: list[Event]) -> Outcome:
    return next(event.outcome for event in events if isinstance(event, StepEnded))


async def test_the_answer_of_a_later_call_is_the_outcome() -> None:
    worker = in_turn(
        Card(name="a", price=PRICE),
        WorkerBroken("cut off", usage=Usage(100_000, 0), maybe_paid=True),
        Completion("good", usage=Usage(200_000, 100_000)),
    )
    events = await told(conductor([worker]))
    outcome = outcome_of(events)
    assert (outcome.status, outcome.text, outcome.attempts) == ("ok", "good", 2)
    assert (outcome.usage, outcome.cost) == (Usage(300_000, 100_000), pytest.approx(4.0))
    assert not outcome.maybe_paid
    first, second = outcome.calls
    assert (first.usage, first.cost, problem_of(first).code) == (Usage(100_000, 0), 1.0, "worker_broken")
    assert (second.problem, second.cost) == (None, pytest.approx(3.0))
    assert next(event for event in events if isinstance(event, AttemptFailed)).call == first


async def test_waits_double_and_are_drawn_from_zero() -> None:
    retry = Retry(attempts=6, first_wait=1.0, max_wait=5.0, break_after=None)
    events = await told(conductor([ScriptedWorker("a", DOWN)], retry))
    at = [moment for _, _, moment in started(events)]
    waits = [event.wait for event in events if isinstance(event, AttemptFailed)]
    assert [later - earlier for earlier, later in pairwise(at)] == pytest.approx(waits)
    for wait, most in zip(waits, (1.0, 2.0, 4.0, 5.0, 5.0), strict=True):
        assert 0 < wait <= most
    assert len(set(waits)) == len(waits)


async def test_a_retry_after_that_is_too_long_is_not_waited_for() -> None:
    busy = WorkerUnavailable("busy", retry_after=120.0)
    alone = outcome_of(await told(conductor([ScriptedWorker("a", busy)])))
    assert "120 s, more than Retry.max_wait (30 s)" in problem_of(alone).message
    assert alone.seconds == 0
    worker, other = ScriptedWorker("a", busy), ScriptedWorker("b", "fine")
    helped = outcome_of(await told(conductor([worker, other], Retry(fallbacks={"a": ["b"]}))))
    assert (helped.worker, helped.text, helped.seconds, len(worker.requests)) == ("b", "fine", 0, 1)


@pytest.mark.parametrize(("attempts", "called"), [(1, "a"), (2, "ab"), (4, "aabc")])
async def test_stand_ins_share_the_budget(attempts: int, called: str) -> None:
    workers: list[Worker] = [ScriptedWorker(name, DOWN) for name in "abc"]
    retry = Retry(attempts=attempts, fallbacks={"a": ("b", "c")}, break_after=None)
    events = await told(conductor(workers, retry))
    assert "".join(name for name, _, _ in started(events)) == called
    assert outcome_of(events).worker == called[-1]


async def test_an_answer_above_its_limit_is_not_paid_for_again() -> None:
    long, brief = Actor("a", writing("x" * 60, "x" * 60)), ScriptedWorker("b", "brief")
    limits, retry = Limits(output_chars=100), Retry(attempts=4, break_after=1)
    alone = conductor([long], retry, limits=limits)
    for _ in range(2):
        outcome = (await alone.run(PLAN)).outcomes[0]
        end = (outcome.status, problem_of(outcome).code, outcome.attempts)
        assert end == ("failed", "answer_too_long", 1)
        assert problem_of(outcome).message.endswith("more than 100 characters: raise Limits.output_chars")
    result = await conductor([long, brief], Retry(fallbacks={"a": ["b"]}), limits=limits).run(PLAN)
    assert (result.answer, [call.worker for call in result.outcomes[0].calls]) == ("brief", ["a", "b"])


async def test_workers_of_a_label_stand_in_for_one_another() -> None:
    large = frozenset({"large", "eu"})
    workers: list[Worker] = [
        ScriptedWorker(Card(name="a", labels=large), WorkerRefused("no")),
        ScriptedWorker(Card(name="b", labels=frozenset({"eu"})), "wrong"),
        ScriptedWorker(Card(name="c", labels=large), WorkerRefused("no")),
        ScriptedWorker("d", WorkerRefused("no")),
        ScriptedWorker(Card(name="e", labels=frozenset({"large"})), "fine"),
    ]
    retry = Retry(attempts=9, fallback_labels=frozenset({"large"}), fallbacks={"a": ["d"]})
    events = await told(conductor(workers, retry))
    assert [name for name, _, _ in started(events)] == ["a", "d", "c", "e"]


async def test_a_steps_deadline_ends_its_calls() -> None:
    worker = Actor(Card(name="a", price=PRICE), never)
    limits = Limits(attempt_seconds=6.0, step_seconds=10.0)
    outcome = outcome_of(await told(conductor([worker], limits=limits)))
    assert len(worker.requests) == 2
    assert problem_of(outcome).message == "worker 'a' did not answer within 10 s (Limits.step_seconds)"
    assert [call.problem and call.problem.code for call in outcome.calls] == ["worker_timeout"] * 2
    assert outcome.maybe_paid
    assert outcome.cost > 0


async def test_a_nested_run_is_not_run_again() -> None:
    worker = ScriptedWorker("a", DOWN)
    once = Retry(attempts=2, break_after=None)
    inner = Conductor(FixedPlanner(PLAN), [worker], retry=once, card=Card(name="inner"))
    result = await conductor([inner], Retry(attempts=5)).run("Do it.")
    assert (len(worker.requests), result.status) == (2, "failed")


async def test_a_worker_that_keeps_failing_is_left_out() -> None:
    worker, other = in_turn("a", *[DOWN] * 3, "back"), ScriptedWorker("b", "other")
    pool = Pool([worker, other])
    one = conductor(pool, Retry(attempts=2, fallbacks={"a": ["b"]}, break_after=3, break_seconds=60.0))
    assert ([(await one.run(PLAN)).answer for _ in range(4)], len(worker.requests)) == (["other"] * 4, 3)
    await anyio.sleep(59.0)
    assert (await one.run(PLAN)).answer == "other"
    await anyio.sleep(1.0)
    assert ((await one.run(PLAN)).answer, len(worker.requests)) == ("back", 4)


async def test_a_worker_that_nobody_stands_in_for_is_waited_for() -> None:
    """For `max_wait` at most; one call tests whether it works again, and other steps wait for its end."""
    pool = Pool([in_turn("a", DOWN, DOWN, "back", latency=1.0)])
    both = plan_of((0, "b", ()), (0, "c", ()), (0, "d", (0, 1)))
    for plan, wait, calls in ((PLAN, 5.0, 2), (both, 1.0, 0), (both, 9.0, 3)):
        retry = Retry(attempts=2, first_wait=0.01, max_wait=wait, break_after=2, break_seconds=5.0)
        events = [event async for event in conductor(pool, retry).stream(plan)]
        assert len(started(events)) == calls
        if not calls:
            told = "failed 2 times in a row and gets no calls for another 5 s"
            assert told in problem_of(outcome_of(events)).message
    first, second, _ = (moment for _, _, moment in started(events))
    assert second - first == pytest.approx(1.0)


def _named() -> Pool:
    acting = Actor("c", answering("done"))
    acting.acts = True
    return Pool([_worker("a", "A"), _worker("b", "B"), acting])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"attempts": 0}, "Retry.attempts is 0"),
        ({"first_wait": True}, "Retry.first_wait is True"),
        ({"max_wait": float("inf")}, "Retry.max_wait is inf"),
        ({"break_after": 0}, "Retry.break_after is 0"),
        ({"retry_on": "worker_broken"}, "must be a set of texts"),
        ({"retry_on": {"limit"}}, "'limit' is not the code"),
        ({"fallback_on": {"worker_broken"}}, "is in both"),
        ({"fallbacks": {"a": ["nobody"]}}, "'nobody' is not in the pool; the workers are a, b, c"),
        ({"fallbacks": {"a": ["a"]}}, "cannot be its own fallback"),
        ({"fallbacks": {"a": "b"}}, "must be a list of names"),
        ({"fallback_labels": {"large"}}, "fewer than two"),
        ({"next_best": ("nobody",)}, "'nobody' is not in the pool"),
        ({"next_best": ("c",)}, "'c' acts or is a person"),
    ],
)
def test_a_wrong_setting_is_refused(options: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Retry(**options).check(_named())


def _worker(name: str, *answers: str, **facts: Any) -> ScriptedWorker:
    return in_turn(Card(name=name, **facts), *[Completion(text, usage=Usage(3, 1)) for text in answers])


STAND_IN = {"next_best": ("b",), "fallbacks": {"a": ("c",)}, "attempts": 4}


@pytest.mark.parametrize(
    ("answers", "retry", "called", "answer"),
    [
        ((("",), ("B",), ("C",)), {"next_best": ("b", "c")}, "aab", "B"),
        ((("", "A"), ("B",), ("C",)), {"next_best": ("b", "c")}, "aa", "A"),
        ((("",), ("",), ("C",)), {"next_best": ("b", "c"), "ask_again": False}, "abc", "C"),
        ((("",), ("B",), ("C",)), {"next_best": ("b",), "attempts": 2}, "ab", "B"),
        ((("",), ("",), ("C",)), STAND_IN, "aabc", "C"),
    ],
)
async def test_an_empty_answer_goes_to_the_next_best(
    answers: Any, retry: Any, called: str, answer: Any
) -> None:
    workers: list[Worker] = [_worker(name, *said) for name, said in zip("abc", answers, strict=True)]
    result = await conductor(workers, Retry(**retry)).run(PLAN)
    calls = result.outcomes[0].calls
    assert "".join(call.worker for call in calls) or called == "a"
    assert result.answer == answer
    assert {call.problem.code for call in calls if call.problem is not None} <= {"answer_empty"}


async def test_an_unreadable_answer_is_asked_for_again() -> None:
    letter = r"^\(?[A-D]\)?$"
    price = Price(input=1.0, output=1.0)
    workers: list[Worker] = [_worker("a", "It depends.", "Hard to say.", accept=letter, price=price)]
    workers += [_worker("b", "perhaps", price=price)]
    told: list[Event] = []
    retry = Retry(next_best=("b",), break_after=1)
    result = await conductor(workers, retry, journal=MemoryJournal()).run(PLAN, on_event=told.append)
    assert (result.answer, result.status, result.cost) == ("perhaps", "ok", pytest.approx(12e-6))
    failed = [event.call for event in told if isinstance(event, AttemptFailed)]
    assert [(call.worker, problem_of(call).code) for call in failed] == [("a", "answer_unreadable")] * 2
    assert "does not match its `accept`" in problem_of(failed[0]).message
    again = await conductor([_worker("a", "(B)", accept=letter), _worker("b", "no")], retry).run(PLAN)
    assert again.answer == "(B)"


def test_patterns_are_checked() -> None:
    for pattern in ("(", r"(a)\1", "a{9999}{9999}", 5):
        with pytest.raises(ConfigError, match=r"accept of worker 'a' is .*: it must be a regular expression"):
            Card(name="a", accept=pattern)  # type: ignore[arg-type]
    assert retry_within(Retry(next_best=("a", "d")), _named()).next_best == ("a",)


@pytest.mark.parametrize(
    ("accept", "answer", "is_read"),
    [
        ("(a+)+$", "a" * 300_000 + "!", False),  # `re` would need longer than the universe is old
        ("(a|a|b)*$", "ab" * 100_000 + "!", True),
        ("(?i)answer: [a-d]", "So:\nANSWER: B\ud800", True),
    ],
)
async def test_no_text_of_a_model_stops_a_pattern(accept: str, answer: str, is_read: bool) -> None:  # noqa: FBT001
    worker = ScriptedWorker(Card(name="a", accept=accept), answer)
    result = await conductor([worker], Retry(attempts=1)).run(PLAN)
    assert (result.status == "ok") is is_read
    assert is_read or result.outcomes[0].problem.code == "answer_unreadable"  # type: ignore[union-attr]
