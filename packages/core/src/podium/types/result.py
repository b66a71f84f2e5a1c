"""The result of a run. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from podium.secrets import scrub
from podium.types.explain import explain_round, spent
from podium.types.forecast import Forecast, compare
from podium.types.messages import Part
from podium.types.outcome import Action, Call, Outcome, Problem, Proposal, Round, total_cost, usage_note
from podium.types.plan import Plan, PlannedBy
from podium.usage import Usage

RunStatus = Literal["ok", "partial", "failed", "waiting"]

_TOLD = {"ok": "answered", "partial": "answered in part", "failed": "no answer", "waiting": "waits"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a run."""

    run_id: str
    answer: str
    """The output of the plan's last step, verbatim; empty if the run has no answer."""
    status: RunStatus
    """`ok`: the last step, all steps that it depends on, and all actions of the plan are `ok`.

    `partial`: there is an answer, but it is incomplete. `failed`: there is no answer; `outcomes` has the
    outputs of the steps. `waiting`: the plan, or an action, waits for approval.
    """
    problem: Problem | None = None
    """Why the run is not `ok`."""
    rounds: tuple[Round, ...] = ()
    """Empty for a hosted conductor."""
    workers: tuple[str, ...] = ()
    """Names of the pool's workers, in the pool's order."""
    actions: tuple[Action, ...] = ()
    """The actions that the run and its nested runs have begun, in order, each with its end."""
    seconds: float = 0.0
    """Duration of the run, without the time between an interruption and the resume."""
    forecast: Forecast | None = None
    """The forecast of the first plan; `None` if no forecast was made."""
    tool_calls: tuple[Part, ...] = ()
    """Tool calls for the caller to execute, in OpenAI's form; the answer may then be empty."""
    labels: frozenset[str] = frozenset()
    """The labels of the answer, for the rules of a policy; empty for a hosted conductor."""
    hosted_usage: Usage | None = None
    """Usage of the whole run as a hosted conductor reported it; `None` for a local run."""
    hosted_cost: float | None = None
    """Cost of `hosted_usage` in USD; `None` when unknown."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that were run, one per round."""
        return tuple(r.plan for r in self.rounds if r.plan is not None and r.plan.steps)

    @property
    def planner(self) -> PlannedBy | None:
        """The planner of the latest plan that was run; `None` if no plan was run."""
        planned = [r.planner for r in self.rounds if r.plan is not None and r.plan.steps]
        return planned[-1] if planned else None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all rounds, including those of answer checks."""
        checked = ((*r.outcomes, *((r.check,) if r.check is not None else ())) for r in self.rounds)
        return tuple(outcome for outcomes in checked for outcome in outcomes)

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """The planner calls of all rounds."""
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
        """The part of `usage` that was estimated from text, because no plausible usage was reported."""
        if self.hosted_usage is not None:
            return self.hosted_usage if self.hosted_usage.estimated else Usage()
        return Usage.total(bill.usage for bill in self.bills if bill.usage.estimated)

    @property
    def usage_note(self) -> str:
        """How many calls are charged without a reported usage, in words; empty if there are none."""
        return usage_note(self.bills)

    @property
    def cost(self) -> float | None:
        """Cost of the planner and all steps in USD; `None` when a price is unknown.

        The usage of a call may be estimated, or it may be unknown whether the call is billed (see
        `maybe_paid`). `charged` of the call says what the cost is computed from.
        """
        if self.hosted_usage is not None:
            return self.hosted_cost
        return total_cost([*(p.cost for p in self.proposals), *(o.cost for o in self.outcomes)])

    @property
    def maybe_paid(self) -> bool:
        """Whether part of `cost` may not be billed: a call was sent, and no complete response arrived."""
        return any(p.maybe_paid for p in self.proposals) or any(o.maybe_paid for o in self.outcomes)

    @property
    def usage_by_worker(self) -> dict[str, Usage]:
        """Tokens of each worker that was called."""
        return {name: Usage.total(call.usage for call in calls) for name, calls in self._calls().items()}

    @property
    def cost_by_worker(self) -> dict[str, float | None]:
        """Cost in USD of each worker that was called; `None` when unknown."""
        return {name: total_cost(call.cost for call in calls) for name, calls in self._calls().items()}

    @property
    def bills(self) -> Sequence[Proposal | Call | Outcome]:
        """The calls of planners and workers, each with its tokens and cost."""
        calls = (call for outcome in self.outcomes for call in outcome.calls or (outcome,))
        return (*self.proposals, *calls)

    def _calls(self) -> dict[str, list[Call | Outcome]]:
        found: dict[str, list[Call | Outcome]] = {}
        for outcome in self.outcomes:
            for call in outcome.calls or ((outcome,) if outcome.attempts else ()):
                found.setdefault(call.worker, []).append(call)
        return found

    def explain(self) -> str:
        """Return a description of the run's decisions, their reasons and their costs."""
        told = _TOLD[self.status]
        if self.problem is not None:
            told += f" ({self.problem.code}: {self.problem.message})"
        lines = [f"Run {self.run_id}: {told} after {self.seconds:.2f} s."]
        if self.hosted_usage is not None:
            lines.append("A hosted conductor answered; it returns neither its plan nor its steps.")
        for current in self.rounds:
            lines += explain_round(current)
        if self.forecast is not None and self.rounds:
            lines.append(compare(self.forecast, self.rounds[0].outcomes))
        unsure = ", part of which may not be billed" if self.maybe_paid else ""
        unsure += f" ({note})" if (note := self.usage_note) else ""
        lines.append(f"Total: {spent(self.usage, self.cost, self.estimated_usage)}{unsure}.")
        return scrub("\n".join(lines) + "\n")
