"""What is reserved, settled, kept and charged, and what does not fit."""

import pytest

from podium.budget import Limits, Remaining, Spend
from podium.budget.ledger import Kept, Ledger, Reservation
from podium.errors import LimitExceeded
from podium.usage import Usage

CALL = Spend(1, 100, 50, 0.01)


def _ledger(**limits: float) -> Ledger:
    return Ledger(Limits(**limits), deadline=0.0)  # type: ignore[arg-type] # a test names them right


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


def test_an_unknown_cost_under_a_cost_limit_needs_a_choice() -> None:
    """It never counts as nothing."""
    ledger = _ledger(cost=1.0)
    with pytest.raises(LimitExceeded, match=r"Limits.unpriced") as refused:
        ledger.reserve(Spend(1, cost=None))
    assert refused.value.limit == "unpriced"
    with pytest.raises(LimitExceeded, match=r"Limits.unpriced"):
        ledger.charge(Spend(1, cost=None))
    assert ledger.spent == ledger.reserved == Spend()


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
