"""Computes the amount that the ledger counts for a call."""

from collections.abc import Callable, Iterable
from typing import Literal

from podium.budget.spend import Spend
from podium.usage import Usage

Charged = Literal["usage", "received", "reservation"]
"""What a call is charged for.

- `usage`: the reported usage, or nothing if the call used no tokens.
- `received`: no usage was reported, and the whole response was received: its text bounds the answer.
- `reservation`: no usage was reported, and the call may have used as much as was reserved.
"""
UNREPORTED: dict[Charged, str] = {
    "reservation": "charged at the reservation: no usage reported",
    "received": "charged by the received text: no usage reported",
}
"""The charges of calls whose usage was not reported, in words; the weakest first."""


def charged_by(usage: Usage) -> Charged:
    """Return what a call with a complete answer is charged for."""
    return "reservation" if usage.estimated else "usage"


def weakest(charged: Iterable[Charged]) -> Charged:
    """Return what several calls are charged for: the least known of them."""
    found = set(charged)
    return next((each for each in UNREPORTED if each in found), "usage")


def charge(reserved: Spend, usage: Usage, cost: float | None, charged: Charged) -> Spend:
    """Return the amount that counts for a call.

    For a call that is charged at the reservation, this is the larger of the reservation and the estimate.

    Args:
        reserved: the reserved worst case of the call.
        usage: the tokens of the call, reported or estimated.
        cost: the cost of the call in USD; `None` means unknown, and the reserved cost counts.
        charged: what the call is charged for.
    """
    told = Spend.of(usage, reserved.cost if cost is None else cost, calls=reserved.calls)
    if charged != "reservation":
        return told
    known = [cost for cost in (told.cost, reserved.cost) if cost is not None]
    return Spend(
        told.calls,
        max(told.input_tokens, reserved.input_tokens),
        max(told.output_tokens, reserved.output_tokens),
        max(known, default=None),
    )


def beside_nested(
    usage: Usage, cost: float | None, nested: Spend, price: Callable[[Usage], float | None]
) -> tuple[Usage, float | None, Spend]:
    """Return the usage and cost of a call whose worker started nested runs.

    The worker may report the spending of the nested runs completely, in part, or not at all. So the amount of
    the call is the larger of the reported amount and the amount of the nested runs.

    Args:
        usage: the tokens that the worker reported.
        cost: the cost that the worker reported, in USD; `None` when unknown.
        nested: the spending of the nested runs, which the outer ledgers have counted already.
        price: returns the cost in USD of the worker's own tokens; `None` when unknown.

    Returns:
        The tokens and the cost of the whole call, and the amount that is not yet counted.
    """
    read, written = usage.total_input_tokens, usage.total_output_tokens
    if read < nested.input_tokens or written < nested.output_tokens:  # the report is incomplete
        known = Usage() if usage.estimated else usage  # an estimate is not a report
        read = max(known.total_input_tokens, nested.input_tokens)
        written = max(known.total_output_tokens, nested.output_tokens)
        usage = Usage(read, written)
    own = Usage(read - nested.input_tokens, written - nested.output_tokens)
    own_cost = price(own) if cost is None else max(cost - (nested.cost or 0.0), 0.0)
    whole = None if own_cost is None or nested.cost is None else own_cost + nested.cost
    return usage, whole, Spend.of(own, own_cost, calls=int(own != Usage() or own_cost != 0))
