"""What a request of a key is charged for: all that its run has cost and used so far."""

from dataclasses import dataclass

from podium.budget import Limits
from podium.types import Result
from podium_server.keys.account import BILLION
from podium_server.keys.key import Key
from podium_server.keys.turns import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The end of an admitted request.

    The request is charged what no other request for its run has paid. So the charges of all requests for a
    run are together the cost of the run, in whatever order they are settled.
    """

    turn_id: str
    key: Key
    run: Amounts
    """What the whole run has cost and used so far."""
    is_priced: bool = True
    """Whether the cost is known; an unknown cost is charged at the reservation."""
    expected: int = 0
    """The tokens that were counted at the admission."""


def bill_of(
    turn_id: str,
    key: Key,
    result: Result,
    limits: Limits | None,
    *,
    expected: int = 0,
    excess: float = 0.0,
) -> Bill:
    """Return the bill of a request whose run has this result so far.

    Args:
        turn_id: the request.
        key: its key.
        result: the result.
        limits: the limits of the run; `None` if they are unknown.
        expected: the tokens that were counted at the admission.
        excess: the part of the cost that is not charged; see `podium_server.keys.recorded.excess_of`.
    """
    cost, usage = _cost(result, limits), result.usage
    tokens = (usage.total_input_tokens, usage.total_output_tokens, result.estimated_usage.total_tokens)
    run = Amounts(max((cost or 0) - round(excess * BILLION), 0), *tokens)
    return Bill(turn_id=turn_id, key=key, run=run, is_priced=cost is not None, expected=expected)


def _cost(result: Result, limits: Limits | None) -> int | None:
    """Return the cost of a run in billionths of a dollar; `None` if it is unknown.

    A call of unknown cost counts as `Limits.unpriced`.
    """
    if result.cost is not None:
        return round(result.cost * BILLION)
    if limits is None or limits.unpriced is None:
        return None
    costs = [limits.unpriced if bill.cost is None else bill.cost for bill in result.bills]
    return round(sum(costs) * BILLION)
