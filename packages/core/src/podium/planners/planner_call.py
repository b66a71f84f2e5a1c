"""What one call of a planner has written so far, and what is to be paid for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from podium.budget.charging import charge
from podium.budget.ledger import Reservation
from podium.budget.spend import MAX_COST, Spend, is_cost
from podium.errors import PodiumError, WorkerError
from podium.plan_text.parser import MAX_CHARS
from podium.planners.planner import Planner, PlanText
from podium.types.messages import FinishReason, Message, estimate_usage, storable, usage_or_estimate
from podium.types.outcome import Problem, Proposal
from podium.usage import Usage, is_well_formed
from podium.workers.circuit_breaker import CircuitBreaker

_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)


@dataclass(slots=True)
class PlannerCall:
    """A plan text that may still be arriving."""

    planner: Planner
    role: Literal["plan", "repair", "fallback"]
    pieces: list[str] = field(default_factory=list)
    whole: PlanText | None = None
    reserved: Reservation | None = None
    """What is set aside for the call; `None` when it was not made."""
    breaker: CircuitBreaker | None = None
    """That of the planner's model; `None` where the model is no worker of the pool."""
    tries: bool = False
    """Whether the call finds out if a model that was left out is back."""
    messages: Sequence[Message] = ()
    """What the planner's model is sent."""
    is_sent: bool = False
    """Whether the planner was asked: before that, the journal records the call's start and reservation."""
    changed: str = ""
    """What the policy changed in the plan, in words."""

    @property
    def text(self) -> str:
        """As much of it as a plan's text may have."""
        text = self.whole.text if self.whole is not None else "".join(self.pieces)
        return storable(text[:MAX_CHARS])

    def proposal(self, problem: Problem | None, error: PodiumError | None, seconds: float) -> Proposal:
        """Return the text as it goes into the result, with its bill."""
        usage, cost, maybe_paid = self._bill(error)
        why = (self.whole.why if self.whole is not None else "", self.changed)
        return Proposal(
            planner=self.planner.name,
            text=self.text,
            role=self.role,
            asked=self.is_sent,
            why="; ".join(filter(None, why)),
            problem=problem,
            usage=usage,
            cost=cost,
            maybe_paid=maybe_paid,
            seconds=seconds,
        )

    def spent(self, proposal: Proposal) -> Spend:
        """Return what the call counts as in the ledger."""
        worst = Spend() if self.reserved is None or not self.is_sent else self.reserved.amount
        return charge(worst, proposal.usage, proposal.cost, maybe_paid=proposal.maybe_paid)

    def _bill(self, error: PodiumError | None) -> tuple[Usage, float | None, bool]:
        """Return tokens, USD, and whether nobody knows if it is on the bill."""
        if not self.is_sent:
            return Usage(), 0.0, False
        assert self.reserved is not None
        whole, maybe_paid = self.whole, False
        if whole is not None:
            usage, told = self._measured(whole.usage), whole.cost
        elif isinstance(error, WorkerError) and error.usage is not None:
            usage = self._measured(error.usage)
            told = error.cost if is_cost(error.cost) else None
        elif not self.pieces and isinstance(error, WorkerError) and not error.maybe_paid:
            return Usage(), 0.0, False
        elif self.planner.card is None and self.reserved.amount == Spend():
            return Usage(), 0.0, False  # it asks nobody
        else:
            usage, told, maybe_paid = estimate_usage(self.messages, self.text), None, True
        cost = self._cost(usage, told)
        if maybe_paid or usage.estimated:
            cost = charge(self.reserved.amount, usage, cost, maybe_paid=maybe_paid).cost
        return usage, cost, maybe_paid

    def _measured(self, usage: Usage) -> Usage:
        """Return a reported usage; an estimate where it cannot be right. A planner of no model has none."""
        assert self.reserved is not None
        if not self.reserved.amount.output_tokens and is_well_formed(usage):
            return usage
        return usage_or_estimate(usage, self.messages, self.text)

    def _cost(self, usage: Usage, told: float | None) -> float | None:
        price = None if self.planner.card is None else self.planner.card.price
        return told if told is not None or price is None else price.cost(usage)


def misfit(whole: PlanText, pieces: Sequence[str]) -> str:
    """Say what is wrong with a plan text, as a planner of the user's own may yield it; empty if nothing is.

    Args:
        whole: the plan text.
        pieces: what the planner yielded before it.
    """
    text: object = whole.text
    why: object = whole.why
    if not isinstance(text, str):
        return f"a PlanText whose text is {type(text).__name__}"
    if not isinstance(why, str):
        return f"a PlanText whose why is {why!r:.80}: it is text"
    if whole.finish_reason not in _REASONS:
        reasons = ", ".join(_REASONS)
        return f"a PlanText whose finish_reason is {whole.finish_reason!r:.80}: it is one of {reasons}"
    if whole.cost is not None and not is_cost(whole.cost):
        return (
            f"a PlanText whose cost is {whole.cost!r:.80}: "
            f"it is a number of USD, 0 or more and below {MAX_COST:g}, or None"
        )
    if pieces and "".join(pieces).split() != storable(text).split():
        return "pieces of another text than its PlanText has"
    return ""
