"""What is reserved, settled, kept and charged, and what does not fit."""

import pytest

from podium.budget import Limits, Remaining, Spend
from podium.budget.ledger import Kept, Ledger, Reservation
from podium.errors import LimitExceeded
from podium.usage import Usage

CALL = Spend(1, 100, 50, 0.01)


def _ledger(**limits: float) -> Ledger:
    return Ledger(Limits(**limits), deadline=0.0)  # type: ignore[arg-type] # a test names them right


def test_what_is_settled_takes_the_place_of_what_was_reserved() -> None:
    """A reservation counts until its call is over; then what it came to does."""
    ledger = _ledger()
    reservation = ledger.reserve(CALL)
    assert (ledger.reserved, ledger.spent) == (CALL, Spend())
    ledger.settle(reservation, Spend(1, 80, 20, 0.004))
    assert (ledger.reserved, ledger.spent) == (Spend(), Spend(1, 80, 20, 0.004))


def test_a_reservation_is_settled_once() -> None:
    """What comes later changes nothing, so that a `finally` may settle as a last resort."""
    ledger = _ledger()
    reservation = ledger.reserve(CALL)
    ledger.settle(reservation, CALL)
    ledger.settle(reservation, Spend(1, 999, 999, 9.0))
    assert (ledger.reserved, ledger.spent) == (Spend(), CALL)


def test_what_fits_exactly_fits() -> None:
    """Sums of cents are whole: 0.1 three times is 0.3."""
    ledger = _ledger(cost=0.3)
    for _ in range(3):
        ledger.settle(ledger.reserve(Spend(1, cost=0.1)), Spend(1, cost=0.1))
    assert ledger.left.cost == 0.0
    assert ledger.spent.cost == 0.3


@pytest.mark.parametrize(
    ("limits", "field", "told"),
    [
        ({"calls": 1}, "calls", "1 call, and the run has 0 calls left of its 1 call: raise Limits.calls"),
        (
            {"input_tokens": 150},
            "input_tokens",
            "100 input tokens, and the run has 50 input tokens left of its 150",
        ),
        ({"output_tokens": 99}, "output_tokens", "50 output tokens, and the run has 49 output tokens left"),
        ({"cost": 0.0175}, "cost", "$0.01, and the run has $0.0075 left of its $0.0175: raise Limits.cost"),
    ],
)
def test_what_does_not_fit_is_refused_and_books_nothing(
    limits: dict[str, float], field: str, told: str
) -> None:
    """The error names what was needed, what is left, and the limit to raise."""
    outer = _ledger()
    ledger = outer.nested(Limits(**limits), 1, 0.0)  # type: ignore[arg-type] # a test names them right
    ledger.reserve(CALL)
    with pytest.raises(LimitExceeded) as refused:
        ledger.reserve(CALL)
    assert refused.value.limit == field
    assert told.replace("the run", "the nested run") in str(refused.value)
    assert ledger.reserved == outer.reserved == CALL


def test_a_nested_run_is_held_to_the_limits_of_the_run_around_it() -> None:
    """What the outer run refuses is booked in neither, and the error says whose limit it is."""
    outer = _ledger(output_tokens=60)
    inner = outer.nested(Limits(output_tokens=1000), 1, 0.0)
    inner.settle(inner.reserve(CALL), CALL)
    assert outer.spent == inner.spent == CALL
    with pytest.raises(LimitExceeded, match="the outer run has 10 output tokens left of its 60"):
        inner.reserve(CALL)
    assert inner.reserved == outer.reserved == Spend()
    assert inner.left.output_tokens == 10


def test_steps_are_counted_everywhere_or_nowhere() -> None:
    """A step that one run refuses is booked in none."""
    outer = _ledger(steps=2)
    inner = outer.nested(Limits(steps=5), 1, 0.0)
    inner.reserve(CALL, starts=1)
    outer.reserve(CALL, starts=1)
    with pytest.raises(LimitExceeded, match="the outer run has 0 steps left of its 2 steps"):
        inner.reserve(CALL, starts=1)
    assert (inner.steps, outer.steps, inner.left.steps) == (1, 2, 0)


def test_what_a_run_keeps_is_left_by_its_nested_runs() -> None:
    """The run itself may use it; a nested run is refused it, in the books of all outer runs."""
    outermost = _ledger(output_tokens=120)
    outer = outermost.nested(Limits(), 1, 0.0)
    inner = outer.nested(Limits(), 2, 0.0)
    outer.keep(lambda: Kept([Spend(1, output_tokens=80)], steps=1))
    with pytest.raises(LimitExceeded, match=r"40 output tokens left .*another 80 output tokens kept"):
        inner.reserve(CALL)
    assert inner.left.output_tokens == 40
    assert (outer.left.output_tokens, outer.left.steps, inner.left.steps) == (120, 32, 31)
    outer.settle(outer.reserve(CALL), CALL)
    outer.keep(None)
    inner.reserve(CALL)
    assert outermost.left.output_tokens == 20


def test_a_conductor_reserves_its_own_calls() -> None:
    """Nothing is reserved for it, and what its calls come to is booked by them alone."""
    outer = _ledger(output_tokens=100)
    reservation = outer.reserve(None)
    inner = outer.nested(Limits(), 1, 0.0)
    inner.settle(inner.reserve(CALL), CALL)
    outer.settle(reservation, Spend(1, 500, 500, 5.0))
    assert reservation.amount == Spend()
    assert outer.spent == CALL


def test_an_unknown_cost_counts_as_it_was_chosen_to() -> None:
    """It stays unknown in what is reported."""
    ledger = _ledger(cost=1.0, unpriced=0.4)
    unknown = Spend(1, 10, 10, None)
    first, second = ledger.reserve(unknown), ledger.reserve(unknown)
    assert ledger.reserved.cost is None
    with pytest.raises(LimitExceeded) as refused:
        ledger.reserve(unknown)
    assert refused.value.limit == "cost"
    ledger.settle(first, unknown)
    ledger.settle(second, Spend(1, 10, 10, 0.1))
    assert (ledger.spent.cost, ledger.reserved.cost) == (None, 0.0)
    assert ledger.left.cost == 0.5


def test_an_unknown_cost_under_a_cost_limit_needs_a_choice() -> None:
    """It never counts as nothing."""
    ledger = _ledger(cost=1.0)
    with pytest.raises(LimitExceeded, match=r"Limits.unpriced") as refused:
        ledger.reserve(Spend(1, cost=None))
    assert refused.value.limit == "unpriced"
    with pytest.raises(LimitExceeded, match=r"Limits.unpriced"):
        ledger.charge(Spend(1, cost=None))
    assert ledger.spent == ledger.reserved == Spend()


def test_a_call_whose_cost_turned_out_unknown_counts_as_what_was_set_aside() -> None:
    """As after a timeout: nobody knows, so the limit takes the worst, and the report says unknown."""
    ledger = _ledger(cost=0.025)
    ledger.settle(ledger.reserve(CALL), Spend(1, 100, 50, None))
    assert ledger.spent.cost is None
    assert ledger.left.cost == 0.015


def test_what_came_to_more_than_its_worst_case_is_counted_in_full() -> None:
    """Nothing more is let through after it."""
    ledger = _ledger(output_tokens=100)
    ledger.settle(ledger.reserve(CALL), Spend(1, 100, 400, 0.01))
    assert ledger.left.output_tokens == 0
    with pytest.raises(LimitExceeded, match="0 output tokens left"):
        ledger.reserve(Spend(1, 1, 1, 0.0))


def test_a_resumed_run_starts_with_what_was_spent_before() -> None:
    """It may be more than the limits allow; then no call is let through. The run around spent none of it."""
    outer = _ledger(calls=3)
    ledger = outer.nested(Limits(calls=2), 1, 0.0)
    ledger.charge(Spend(2, 10, 10, 0.5))
    assert (ledger.spent, ledger.added) == (Spend(2, 10, 10, 0.5), Spend())
    assert outer.spent == Spend()
    with pytest.raises(LimitExceeded, match=r"Limits.calls"):
        ledger.reserve(CALL)


def test_what_is_set_aside_for_a_call_is_free_once_a_run_in_it_reserves_its_own_calls() -> None:
    """The call is settled at its end all the same, to what nothing else has booked."""
    outer = _ledger(calls=1)
    call = outer.reserve(CALL)
    inner = outer.nested(Limits(), 1, 0.0)
    with pytest.raises(LimitExceeded, match=r"Limits.calls"):
        inner.reserve(CALL)
    outer.release(call)
    inner.settle(inner.reserve(CALL), CALL)
    outer.settle(call, Spend(0, 5, 5, 0.0))
    assert outer.reserved == Spend()
    assert outer.spent == Spend(1, CALL.input_tokens + 5, CALL.output_tokens + 5, CALL.cost)


def test_what_is_left_is_none_where_nothing_is_limited() -> None:
    """The tightest limit around a run tells what it has."""
    assert _ledger().left == Remaining(steps=32, calls=1000)
    outer = _ledger(cost=2.0, calls=10)
    inner = outer.nested(Limits(cost=5.0, input_tokens=700), 1, 0.0)
    inner.reserve(CALL)
    assert inner.left == Remaining(steps=32, calls=9, input_tokens=600, cost=1.99)


def test_round_figures_are_rounded_down_to_one_digit() -> None:
    """So that requests which differ by little are the same."""
    left = Remaining(steps=0, calls=7, input_tokens=19_999, output_tokens=800, cost=0.0479)
    assert left.rounded == Remaining(steps=0, calls=7, input_tokens=10_000, output_tokens=800, cost=0.04)
    assert Remaining().rounded == Remaining()


def test_a_hosted_conductors_own_tokens_count() -> None:
    """They are on the bill."""
    usage = Usage(10, 20, orchestration_input_tokens=100, orchestration_output_tokens=200)
    assert Spend.of(usage, None) == Spend(1, 110, 220, None)
    assert not Reservation(Spend()).settled
