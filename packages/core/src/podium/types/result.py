"""What a run comes to. Pure data."""

from dataclasses import dataclass
from typing import Literal

from podium.secrets import scrub
from podium.types.explain import explain_round, spent
from podium.types.forecast import Forecast, compare
from podium.types.messages import Part
from podium.types.outcome import Call, Outcome, Problem, Proposal, Round, total_cost
from podium.types.plan import Plan, PlannedBy
from podium.usage import Usage

RunStatus = Literal["ok", "partial", "failed", "waiting"]

_TOLD = {"ok": "answered", "partial": "answered in part", "failed": "no answer", "waiting": "waits"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run came to."""

    run_id: str
    answer: str
    """The output of the plan's last step, verbatim; empty where the run has no answer."""
    status: RunStatus
    """`ok`: every step behind the answer ended well; `partial`: there is an answer, and it lacks
    something; `failed`: there is no answer, and the outputs are in `outcomes`; `waiting`: the plan
    waits for approval."""
    problem: Problem | None = None
    """Why the run is not `ok`."""
    rounds: tuple[Round, ...] = ()
    """Empty for a hosted conductor, which shows none of them."""
    workers: tuple[str, ...] = ()
    """Names of the pool's workers, in its order."""
    seconds: float = 0.0
    """How long the run was carried out, over all attempts; time for which it rested does not count."""
    forecast: Forecast | None = None
    """What the first plan was expected to take; `None` where nobody asked."""
    tool_calls: tuple[Part, ...] = ()
    """Calls the caller is asked to make, as OpenAI writes them; the answer may then be empty."""
    hosted_usage: Usage | None = None
    """What a hosted conductor reported for the whole run; `None` for one that runs here."""
    hosted_cost: float | None = None
    """What that costs in USD; `None` when its price is unknown."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans carried out, one per round."""
        return tuple(r.plan for r in self.rounds if r.plan is not None and r.plan.steps)

    @property
    def planner(self) -> PlannedBy | None:
        """Who wrote the latest plan that was carried out; `None` without one, and for a hosted conductor."""
        planned = [r.planner for r in self.rounds if r.plan is not None and r.plan.steps]
        return planned[-1] if planned else None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all rounds, those of checks included."""
        checked = ((*r.outcomes, *((r.check,) if r.check is not None else ())) for r in self.rounds)
        return tuple(outcome for outcomes in checked for outcome in outcomes)

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """The texts planners wrote, over all rounds."""
        return tuple(proposal for r in self.rounds for proposal in r.proposals)

    @property
    def usage(self) -> Usage:
        """Tokens of the planner and all steps."""
        if self.hosted_usage is not None:
            return self.hosted_usage
        written = Usage.total(proposal.usage for proposal in self.proposals)
        return written + Usage.total(outcome.usage for outcome in self.outcomes)

    @property
    def estimated_usage(self) -> Usage:
        """The part of `usage` that was estimated from text, because nothing credible was reported."""
        if self.hosted_usage is not None:
            return self.hosted_usage if self.hosted_usage.estimated else Usage()
        calls = (call for outcome in self.outcomes for call in outcome.calls or (outcome,))
        return Usage.total(bill.usage for bill in (*self.proposals, *calls) if bill.usage.estimated)

    @property
    def cost(self) -> float | None:
        """USD for the planner and all steps; `None` when the price of any of it is unknown.

        A call whose usage was estimated, or that may not be on the bill (see `maybe_paid`), counts as the
        ledger counts it: as the larger of its reservation and its estimate.
        """
        if self.hosted_usage is not None:
            return self.hosted_cost
        return total_cost([*(p.cost for p in self.proposals), *(o.cost for o in self.outcomes)])

    @property
    def maybe_paid(self) -> bool:
        """Whether some of `cost` may not be on the bill: a call was sent, and its end was not seen."""
        return any(p.maybe_paid for p in self.proposals) or any(o.maybe_paid for o in self.outcomes)

    @property
    def usage_by_worker(self) -> dict[str, Usage]:
        """Tokens of each worker that was called."""
        return {name: Usage.total(call.usage for call in calls) for name, calls in self._calls().items()}

    @property
    def cost_by_worker(self) -> dict[str, float | None]:
        """USD of each worker that was called; `None` where it is unknown."""
        return {name: total_cost(call.cost for call in calls) for name, calls in self._calls().items()}

    def _calls(self) -> dict[str, list[Call | Outcome]]:
        found: dict[str, list[Call | Outcome]] = {}
        for outcome in self.outcomes:
            for call in outcome.calls or ((outcome,) if outcome.attempts else ()):
                found.setdefault(call.worker, []).append(call)
        return found

    def explain(self) -> str:
        """Say in words what was decided, by whom and why, and what it cost."""
        told = _TOLD[self.status]
        if self.problem is not None:
            told += f" ({self.problem.code}: {self.problem.message})"
        lines = [f"Run {self.run_id}: {told} after {self.seconds:.2f} s."]
        if self.hosted_usage is not None:
            lines.append("A hosted conductor was asked; it shows neither its plan nor its steps.")
        for current in self.rounds:
            lines += explain_round(current)
        if self.forecast is not None and self.rounds:
            lines.append(compare(self.forecast, self.rounds[0].outcomes))
        unsure = ", of which some may not be on the bill" if self.maybe_paid else ""
        lines.append(f"In all: {spent(self.usage, self.cost, self.estimated_usage)}{unsure}.")
        return scrub("\n".join(lines) + "\n")
