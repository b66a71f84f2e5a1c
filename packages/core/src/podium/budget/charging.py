"""Computes the amount that the ledger counts for a call."""

from collections.abc import Callable

from podium.budget.spend import Spend
from podium.usage import Usage


def charge(reserved: Spend, usage: Usage, cost: float | None, *, maybe_paid: bool) -> Spend:
    """Return the amount that counts for a call.

    If the server reported the usage, the amount is the reported usage. Otherwise the usage is estimated, or
    it is unknown whether the call is billed. Then the amount is the larger of the reservation and the
    estimate.

    Args:
        reserved: the reserved worst case of the call.
        usage: the tokens of the call, reported or estimated.
        cost: the cost of the call in USD; `None` means unknown, and the reserved cost counts.
        maybe_paid: whether it is unknown if the call is billed.
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
