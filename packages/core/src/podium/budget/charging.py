"""The one rule for what a call counts as in the ledger, however it ended and whoever priced it."""

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
