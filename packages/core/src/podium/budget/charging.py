"""The one rule for what a call counts as in the ledger, however it ended and whoever priced it."""

from collections.abc import Callable

from podium.budget.spend import Spend
from podium.usage import Usage


def charge(reserved: Spend, usage: Usage, cost: float | None, *, maybe_paid: bool) -> Spend:
    """Return what a call counts as.

    A call whose usage was measured counts as what it used. A call whose usage was estimated, or of
    which nobody knows whether it was paid for, counts as the larger of its reservation and its
    estimate.

    Args:
        reserved: the call's worst case, as it was reserved.
        usage: the tokens of the call, measured or estimated.
        cost: what they cost in USD; `None` where it is unknown, which counts as what was reserved.
        maybe_paid: whether nobody knows if the call is on the bill.
    """
    told = Spend.of(usage, reserved.cost if cost is None else cost, calls=reserved.calls)
    if not (maybe_paid or usage.estimated):
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
    """Return what a call came to whose worker's code began runs, and what of it these have not booked.

    A worker may report what such runs spent, or part of it, or nothing of it. So the call came to
    what was reported or to what the runs spent, whichever is more.

    Args:
        usage: the tokens that the worker reported.
        cost: what it reported in USD; `None` where it does not know.
        nested: what the runs have spent, and have booked in the runs around.
        price: returns what tokens of the worker's own cost in USD; `None` where that is unknown.

    Returns:
        The tokens and the cost of the whole call, and what is still to be booked.
    """
    read, written = usage.total_input_tokens, usage.total_output_tokens
    if read < nested.input_tokens or written < nested.output_tokens:  # it does not report all
        known = Usage() if usage.estimated else usage  # an estimate stands for no report
        read = max(known.total_input_tokens, nested.input_tokens)
        written = max(known.total_output_tokens, nested.output_tokens)
        usage = Usage(read, written)
    own = Usage(read - nested.input_tokens, written - nested.output_tokens)
    own_cost = price(own) if cost is None else max(cost - (nested.cost or 0.0), 0.0)
    whole = None if own_cost is None or nested.cost is None else own_cost + nested.cost
    return usage, whole, Spend.of(own, own_cost, calls=int(own != Usage() or own_cost != 0))
