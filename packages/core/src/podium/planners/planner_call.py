"""What one call of a planner has written so far, and what is to be paid for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from podium.budget.ledger import Reservation
from podium.budget.spend import Spend
from podium.errors import PodiumError, WorkerError
from podium.plan_text.parser import MAX_CHARS
from podium.planners.planner import Planner, PlanText
from podium.types.messages import Message, estimate_usage, storable
from podium.types.outcome import Problem, Proposal
from podium.usage import Usage


@dataclass(slots=True)
class PlannerCall:
    """A plan text that may still be arriving."""

    planner: Planner
    role: Literal["plan", "repair", "fallback"]
    pieces: list[str] = field(default_factory=list)
    whole: PlanText | None = None
    reserved: Reservation | None = None
    """What is set aside for the call; `None` when it was not made."""
    is_sent: bool = False
    """Whether the planner was asked: before that, the journal records the call's start and reservation."""
    changed: str = ""
    """What the policy changed in the plan, in words."""

    @property
    def text(self) -> str:
        """As much of it as a plan's text may have."""
        text = self.whole.text if self.whole is not None else "".join(self.pieces)
        return storable(text[:MAX_CHARS])

    def proposal(
        self, query: Sequence[Message], problem: Problem | None, error: PodiumError | None, seconds: float
    ) -> Proposal:
        """Return the text as it goes into the result, with its bill."""
        usage, cost, maybe_paid = self._bill(query, error)
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
        """Return what the call came to; one that may be paid for counts as the most it may come to."""
        worst = Spend() if self.reserved is None or not self.is_sent else self.reserved.amount
        spent = Spend.of(proposal.usage, proposal.cost, calls=worst.calls)
        if not proposal.maybe_paid:
            return spent
        read, written = (
            max(spent.input_tokens, worst.input_tokens),
            max(spent.output_tokens, worst.output_tokens),
        )
        return replace(spent, input_tokens=read, output_tokens=written)

    def _bill(self, query: Sequence[Message], error: PodiumError | None) -> tuple[Usage, float | None, bool]:
        """Return tokens, USD, and whether nobody knows if it is on the bill."""
        if not self.is_sent:
            return Usage(), 0.0, False
        if self.whole is not None:
            return self.whole.usage, self.whole.cost, False
        if isinstance(error, WorkerError) and error.usage is not None:
            return error.usage, self._cost(error.usage, error.cost), False
        if not self.pieces and isinstance(error, WorkerError) and not error.maybe_paid:
            return Usage(), 0.0, False
        return estimate_usage(query, self.text), None, True

    def _cost(self, usage: Usage, told: float | None) -> float | None:
        price = None if self.planner.card is None else self.planner.card.price
        return told if told is not None or price is None else price.cost(usage)
