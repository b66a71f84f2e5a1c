"""The rules of budgets and rate limits, for any times and amounts."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from podium_server.keys import BudgetReserved, BudgetSpent, KeyRefused, KeyRules
from podium_server.keys.account import BILLION, Account, Bucket, Period, day_of, ends_of


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def account(spent: int, reserved: int, *, most: int = 100) -> Account:
    periods = (Period("day", most, spent, reserved, end=86_400.0),)
    return Account(KeyRules(day_cost=most / BILLION), 0.0, 0, None, None, periods)


@given(
    most=st.integers(1, 1000),
    orders=st.lists(st.tuples(st.integers(1, 300), st.floats(0, 1), st.booleans()), max_size=60),
)
def test_reservations_stay_within_the_budget(most: int, orders: list[tuple[int, float, bool]]) -> None:
    """Whatever is admitted and settled in any order: reserved and spent amounts stay within the budget."""
    current = account(0, 0, most=most)
    running: list[int] = []
    for wanted, share, settles in orders:
        if settles and running:
            reserved = running.pop(0)
            current.settle("1970-01-01", reserved, int(reserved * share), 0)
        else:
            try:
                running.append(current.admit(wanted, 0, wanted))
            except KeyRefused:
                continue
            assert 0 < running[-1] <= wanted
        (period,) = current.periods
        assert period.reserved == sum(running)
        assert period.spent + period.reserved <= most


def test_the_rest_is_granted_only_if_no_run_may_leave_more() -> None:
    assert account(90, 0).admit(None, 0, 50) == 10
    assert account(50, 40).raise_by(50) == 10
    with pytest.raises(BudgetReserved):
        account(50, 40).admit(None, 0, 50)
    with pytest.raises(BudgetReserved):
        account(50, 50).raise_by(50)
    with pytest.raises(BudgetSpent):
        account(100, 0).admit(None, 0, 50)
    with pytest.raises(BudgetSpent):
        account(90, 0).admit(None, 0, 50, is_new=True)
    assert account(0, 0).admit(40, 0, 50) == 40


@given(
    size=st.integers(1, 100),
    waits=st.lists(st.floats(-100, 100), max_size=200),
)
def test_a_bucket_admits_its_size_and_what_was_filled_in(size: int, waits: list[float]) -> None:
    left: float | None = None
    admitted, seconds = 0, 0.0
    for wait in waits:
        bucket = Bucket.filled(size, left, wait)
        assert bucket is not None
        seconds += max(wait, 0.0)
        if bucket.wait(1) == 0:
            bucket.left -= 1
            admitted += 1
        left = bucket.left
    assert admitted <= size + seconds * size / 60 + 1e-6


@pytest.mark.parametrize(
    ("time", "day", "tomorrow", "next_month"),
    [
        ("2026-11-30T23:59:59.999", "2026-11-30", "2026-12-01", "2026-12-01"),
        ("2026-12-01T00:00:00", "2026-12-01", "2026-12-02", "2027-01-01"),
        ("2028-02-28T12:00:00", "2028-02-28", "2028-02-29", "2028-03-01"),
        ("2026-12-31T23:00:00", "2026-12-31", "2027-01-01", "2027-01-01"),
        ("2026-01-31T01:00:00", "2026-01-31", "2026-02-01", "2026-02-01"),
    ],
)
def test_days_and_months_are_in_utc(time: str, day: str, tomorrow: str, next_month: str) -> None:
    assert day_of(at(time)) == day
    assert ends_of(day) == (at(tomorrow), at(next_month))
