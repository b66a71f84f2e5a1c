"""What a run leaves: outcomes, proposals, rounds and the result. Pure data."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from podium.errors import PodiumError
from podium.messages import FinishReason, Part, Usage
from podium.plan import Plan

StepStatus = Literal["ok", "failed", "skipped", "cancelled"]
RunStatus = Literal["ok", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as data."""

    code: str
    """The stable code of the error, or of a decision that is none: `unseen`, `superseded`."""
    message: str

    @classmethod
    def of(cls, error: PodiumError) -> "Problem":
        """Describe `error`."""
        return cls(error.code, str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one step ended."""

    round: int
    step: int
    """Index of the step in its plan, from 0."""
    worker: str
    """The worker's name."""
    status: StepStatus
    text: str = ""
    """The step's output; of a step that is not `ok`, what had arrived of it."""
    problem: Problem | None = None
    """Why it is not `ok`."""
    finish_reason: FinishReason | None = None
    """How the worker ended; `None` when it did not."""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In USD; `None` when it is unknown."""
    attempts: int = 0
    """Number of the call it came of, from 1: a step that replaces a superseded one goes on
    counting from there; 0 for a step that never started."""
    started: float | None = None
    """Seconds since the run began; `None` for a step that never started."""
    ended: float | None = None
    """Seconds since the run began."""

    @property
    def seconds(self) -> float:
        """How long the step ran; 0 when it never started."""
        return 0.0 if self.started is None or self.ended is None else self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One text a planner wrote, and what became of it."""

    planner: str
    text: str
    why: str = ""
    """What the planner says of its choice, where it does."""
    problem: Problem | None = None
    """Why it was not used; `None` for the one that was."""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In USD; `None` when it is unknown."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One plan and its execution."""

    number: int
    """From 1."""
    plan: Plan | None
    """`None` when no plan could be had; a plan of no steps kept the previous answer."""
    proposals: tuple[Proposal, ...] = ()
    """Every text written for it, in order; empty when the user gave the plan."""
    outcomes: tuple[Outcome, ...] = ()
    """One per step, in the plan's order, then those of steps that a repaired plan superseded."""
    why: str = ""
    """Why there was this round, or why it was the last."""
    check: Outcome | None = None
    """What a worker that judged the answer came to, as a step after the last; `None` without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run came to."""

    run_id: str
    answer: str
    """The output of the last step, verbatim; when that failed, of the last step that did not."""
    status: RunStatus
    """`ok`: the answer is the plan's; `partial`: something is missing from it; `failed`: none."""
    problem: Problem | None = None
    """Why the run is not `ok`."""
    rounds: tuple[Round, ...] = ()
    """Empty for a hosted conductor, which shows none of them."""
    workers: tuple[str, ...] = ()
    """Names of the pool's workers, in its order."""
    seconds: float = 0.0
    tool_calls: tuple[Part, ...] = ()
    """Calls a hosted conductor asks its caller to make, as OpenAI writes them."""
    hosted_usage: Usage | None = None
    """What a hosted conductor reported for the whole run; `None` for one that runs here."""
    hosted_cost: float | None = field(default=None)
    """What that costs in USD; `None` when its price is unknown."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans carried out, one per round."""
        return tuple(r.plan for r in self.rounds if r.plan is not None and r.plan.steps)

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
    def cost(self) -> float | None:
        """USD for the planner and all steps; `None` when any of it is unknown."""
        if self.hosted_usage is not None:
            return self.hosted_cost
        return total_cost([*(p.cost for p in self.proposals), *(o.cost for o in self.outcomes)])

    @property
    def usage_by_worker(self) -> dict[str, Usage]:
        """Tokens of each worker that was called."""
        return {
            name: Usage.total(o.usage for o in self.outcomes if o.worker == name) for name in self._called()
        }

    @property
    def cost_by_worker(self) -> dict[str, float | None]:
        """USD of each worker that was called; `None` where it is unknown."""
        return {
            name: total_cost(o.cost for o in self.outcomes if o.worker == name) for name in self._called()
        }

    def _called(self) -> list[str]:
        return list(dict.fromkeys(o.worker for o in self.outcomes if o.attempts))

    def explain(self) -> str:
        """Say in words what was decided, by whom and why, and what it cost."""
        from podium.explain import explain  # noqa: PLC0415 - it reads results, so it comes after them

        return explain(self)


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Add up costs in USD; unknown as soon as one is."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
