"""Which worker is asked after an answer that nobody can use: an empty one, or one that `accept` rejects."""

from typing import Any

import pytest
from core.actors import Actor, answering, plan_of, problem_of
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium.conductor import Conductor
from podium.config.variant import retry_within
from podium.errors import ConfigError
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import AttemptFailed, Completion, Event
from podium.usage import Usage
from podium.workers import Card, Pool, Price, ScriptedWorker, Worker

pytestmark = pytest.mark.anyio
PLAN = plan_of((0, "do it", ()))


def _worker(name: str, *answers: str, **facts: Any) -> ScriptedWorker:
    """Return a worker that gives these answers one after the other, then the last again."""
    left = [Completion(text, usage=Usage(3, 1)) for text in answers]
    return ScriptedWorker(Card(name=name, **facts), lambda _request: left.pop(0) if left[1:] else left[0])


def _conductor(workers: list[Worker], retry: Retry, **options: Any) -> Conductor:
    return Conductor(FixedPlanner(PLAN), workers, retry=retry, **options)


@pytest.mark.parametrize(
    ("answers", "retry", "called", "answer"),
    [
        ((("",), ("B",), ("C",)), {"next_best": ("b", "c")}, "aab", "B"),
        ((("", "A"), ("B",), ("C",)), {"next_best": ("b", "c")}, "aa", "A"),
        ((("",), ("B",), ("C",)), {"next_best": ("b", "c"), "ask_again": False}, "ab", "B"),
        ((("",), ("",), ("C",)), {"next_best": ("b", "c"), "ask_again": False}, "abc", "C"),
        ((("",), ("B",), ("C",)), {"next_best": ("b",), "attempts": 2}, "ab", "B"),
        (
            (("",), ("",), ("C",)),
            {"next_best": ("b",), "fallbacks": {"a": ("c",)}, "attempts": 4},
            "aabc",
            "C",
        ),
    ],
)
async def test_an_empty_answer_goes_to_the_next_best(
    answers: tuple[tuple[str, ...], ...], retry: dict[str, Any], called: str, answer: str
) -> None:
    workers: list[Worker] = [_worker(name, *said) for name, said in zip("abc", answers, strict=True)]
    result = await _conductor(workers, Retry(**retry)).run(PLAN)
    calls = result.outcomes[0].calls
    assert "".join(call.worker for call in calls) or called == "a"
    assert result.answer == answer
    assert {call.problem.code for call in calls if call.problem is not None} <= {"answer_empty"}


async def test_an_unreadable_answer_is_asked_for_again() -> None:
    letter = r"^\(?[A-D]\)?$"
    price = Price(input=1.0, output=1.0)
    workers: list[Worker] = [
        _worker("a", "It depends.", "Hard to say.", accept=letter, price=price),
        _worker("b", "perhaps", price=price),
    ]
    told: list[Event] = []
    retry = Retry(next_best=("b",), break_after=1)
    conductor = _conductor(workers, retry, journal=MemoryJournal())
    result = await conductor.run(PLAN, on_event=told.append)
    assert (result.answer, result.status, result.cost) == ("perhaps", "ok", pytest.approx(12e-6))
    failed = [event.call for event in told if isinstance(event, AttemptFailed)]
    assert [(call.worker, call.problem and call.problem.code) for call in failed] == [
        ("a", "answer_unreadable"),
        ("a", "answer_unreadable"),
    ]
    assert "does not match its `accept`" in problem_of(failed[0]).message
    again = await _conductor([_worker("a", "(B)", accept=letter), _worker("b", "no")], retry).run(PLAN)
    assert again.answer == "(B)"


def test_names_of_the_next_best_are_checked() -> None:
    acting = Actor("b", answering("done"))
    acting.acts = True
    pool = Pool([_worker("a", "A"), acting])
    for names, why in ((("nobody",), "'nobody' is not in the pool"), (("b",), "'b' acts or is a person")):
        with pytest.raises(ConfigError, match=why):
            Retry(next_best=names).check(pool)
    with pytest.raises(ConfigError, match="must be a list of names"):
        Retry(next_best="a")
    for pattern in ("(", "(?=a)b", r"(a)\1", "a{9999}{9999}", 5):
        with pytest.raises(ConfigError, match=r"accept of worker 'a' is .*: it must be a regular expression"):
            Card(name="a", accept=pattern)  # type: ignore[arg-type]
    assert retry_within(Retry(next_best=("a", "c")), pool).next_best == ("a",)


@pytest.mark.parametrize(
    ("accept", "answer", "is_read"),
    [
        ("(a+)+$", "a" * 300_000 + "!", False),  # `re` would need longer than the universe is old
        ("(a|a|b)*$", "ab" * 100_000 + "!", True),
        ("^[A-D]$", " C\n", True),
        ("(?i)answer: [a-d]", "So:\nANSWER: B\ud800", True),
    ],
)
async def test_no_text_of_a_model_stops_a_pattern(accept: str, answer: str, is_read: bool) -> None:  # noqa: FBT001
    worker = ScriptedWorker(Card(name="a", accept=accept), answer)
    result = await _conductor([worker], Retry(attempts=1)).run(PLAN)
    assert (result.status == "ok") is is_read
    assert is_read or result.outcomes[0].problem.code == "answer_unreadable"  # type: ignore[union-attr]
