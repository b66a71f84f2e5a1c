"""One call of a planner: its text so far, its tokens and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from podium.budget.charging import Charged, charge, charged_by
from podium.budget.ledger import Reservation
from podium.budget.spend import MAX_COST, Spend, is_cost
from podium.errors import PodiumError, WorkerError
from podium.plan_text.parser import MAX_CHARS
from podium.planners.planner import Planner, PlanText
from podium.types.messages import FinishReason, Message, storable, usage_or_estimate
from podium.types.outcome import Problem, Proposal
from podium.usage import Usage, is_well_formed
from podium.workers.circuit_breaker import CircuitBreaker
from podium.workers.token_estimate import unreported_usage
from podium.workers.worker import is_free

_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)


@dataclass(slots=True)
class PlannerCall:
    """A call of a planner that may still be running."""

    planner: Planner
    role: Literal["plan", "repair", "fallback"]
    pieces: list[str] = field(default_factory=list)
    whole: PlanText | None = None
    reserved: Reservation | None = None
    """The amount that is reserved for the call; `None` if the call was not made."""
    breaker: CircuitBreaker | None = None
    """The circuit breaker of the planner's model, if the model is also a worker of the pool; else `None`."""
    tries: bool = False
    """Whether this is a test call, which finds out if an unavailable model works again."""
    messages: Sequence[Message] = ()
    """The messages that are sent to the planner's model."""
    is_sent: bool = False
    """Whether the planner was called, which happens after the journal has recorded the call's start."""
    changed: str = ""
    """The policy's changes of the plan, in words."""

    @property
    def text(self) -> str:
        """The text so far, cut at the maximum length of a plan's text."""
        text = self.whole.text if self.whole is not None else "".join(self.pieces)
        return storable(text[:MAX_CHARS])

    def proposal(self, problem: Problem | None, error: PodiumError | None, seconds: float) -> Proposal:
        """Return the call as it appears in the result, with its tokens and cost."""
        usage, cost, charged, maybe_paid = self._bill(error)
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
            charged=charged,
            seconds=seconds,
        )

    def spent(self, proposal: Proposal) -> Spend:
        """Return the amount that the ledger counts for the call."""
        worst = Spend() if self.reserved is None or not self.is_sent else self.reserved.amount
        return charge(worst, proposal.usage, proposal.cost, proposal.charged)

    def _bill(self, error: PodiumError | None) -> tuple[Usage, float | None, Charged, bool]:
        """Return the tokens, the cost in USD, its source, and whether it is unknown if the call is billed."""
        free: tuple[Usage, float, Charged, bool] = (Usage(), 0.0, "usage", False)
        if not self.is_sent:
            return free
        assert self.reserved is not None
        whole, maybe_paid = self.whole, False
        charged: Charged | None = None
        if whole is not None:
            usage, told = self._measured(whole.usage), whole.cost
        elif isinstance(error, WorkerError) and error.usage is not None:
            usage = self._measured(error.usage)
            told = error.cost if is_cost(error.cost) else None
        elif not self.pieces and is_free(error, self.planner.card):
            return free
        elif self.planner.card is None and self.reserved.amount == Spend():
            return free  # the planner calls no worker
        else:
            usage, charged = unreported_usage(self.messages, self.text, error, self.reserved.amount)
            told, maybe_paid = None, True
        charged, cost = charged or charged_by(usage), self._cost(usage, told)
        if charged == "reservation":
            cost = charge(self.reserved.amount, usage, cost, charged).cost
        return usage, cost, charged, maybe_paid

    def _measured(self, usage: Usage) -> Usage:
        """Return the reported usage, or an estimate if it is impossible for a call of a model."""
        assert self.reserved is not None
        if not self.reserved.amount.output_tokens and is_well_formed(usage):
            return usage
        return usage_or_estimate(usage, self.messages, self.text)

    def _cost(self, usage: Usage, told: float | None) -> float | None:
        price = None if self.planner.card is None else self.planner.card.price
        return told if told is not None or price is None else price.cost(usage)


def misfit(whole: PlanText, pieces: Sequence[str]) -> str:
    """Return what is wrong with the plan text of a user's planner; empty if it is valid.

    Args:
        whole: the plan text.
        pieces: the pieces that the planner yielded before it.
    """
    text: object = whole.text
    why: object = whole.why
    if not isinstance(text, str):
        return f"a PlanText whose text is {type(text).__name__}: it must be text"
    if not isinstance(why, str):
        return f"a PlanText whose why is {why!r:.80}: it must be text"
    if whole.finish_reason not in _REASONS:
        reasons = ", ".join(_REASONS)
        return f"a PlanText whose finish_reason is {whole.finish_reason!r:.80}: it must be one of {reasons}"
    if whole.cost is not None and not is_cost(whole.cost):
        return (
            f"a PlanText whose cost is {whole.cost!r:.80}: "
            f"it must be a number of USD, 0 or more and below {MAX_COST:g}, or None"
        )
    if pieces and "".join(pieces).split() != storable(text).split():
        return "pieces that differ from the text of its PlanText"
    return ""
