"""What is reserved, settled, kept and charged, and what does not fit."""

import pytest

from podium.budget import Limits, Spend
from podium.budget.ledger import Ledger, Reservation
from podium.errors import LimitExceeded
from podium.usage import Usage

CALL = Spend(1, 100, 50, 0.01)


def _ledger(**limits: float) -> Ledger:
    return Ledger(Limits(**limits), deadline=0.0)  # type: ignore[arg-type] # a test names them right


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


def test_an_unknown_cost_under_a_cost_limit_needs_a_choice() -> None:
    """It never counts as nothing."""
    ledger = _ledger(cost=1.0)
    with pytest.raises(LimitExceeded, match=r"Limits.unpriced") as refused:
        ledger.reserve(Spend(1, cost=None))
    assert refused.value.limit == "unpriced"
    with pytest.raises(LimitExceeded, match=r"Limits.unpriced"):
        ledger.charge(Spend(1, cost=None))
    assert ledger.spent == ledger.reserved == Spend()


def test_a_hosted_conductors_own_tokens_count() -> None:
    """They are on the bill."""
    usage = Usage(10, 20, orchestration_input_tokens=100, orchestration_output_tokens=200)
    assert Spend.of(usage, None) == Spend(1, 110, 220, None)
    assert not Reservation(Spend()).settled
