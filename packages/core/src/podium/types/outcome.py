"""What a round leaves: outcomes, proposals, and the round that holds them. Pure data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from podium.errors import PodiumError
from podium.secrets import scrub
from podium.types.messages import FinishReason, Part
from podium.types.plan import Plan, PlannedBy
from podium.usage import Usage

StepStatus = Literal["ok", "failed", "skipped", "cancelled"]


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as data."""

    code: str
    """The stable code of the error, or of a decision that is none: `unseen`, `superseded`."""
    message: str
    """Without secrets, whomever it quotes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", scrub(self.message))

    @classmethod
    def of(cls, error: PodiumError) -> "Problem":
        """Describe `error`."""
        return cls(error.code, str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a worker, as it is billed."""

    attempt: int
    """Its number among the calls for the step, from 1."""
    worker: str
    problem: Problem | None = None
    """Why the step went on without it; `None` for the one that the outcome came of."""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In USD; `None` when it is unknown."""
    maybe_paid: bool = False
    """Whether nobody knows if it is on the bill: it was sent, and its end was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one step ended."""

    round: int
    step: int
    """Index of the step in its plan, from 0."""
    worker: str
    """The name of the worker it came of: the step's own, or one that stood in for it."""
    status: StepStatus
    text: str = ""
    """The step's output; of a step that is not `ok`, what had arrived of it."""
    problem: Problem | None = None
    """Why it is not `ok`; of one that is, what its text lacks all the same."""
    finish_reason: FinishReason | None = None
    """How the worker ended; `None` when it did not."""
    usage: Usage = Usage()
    """Tokens of all calls made for the step."""
    cost: float | None = 0.0
    """Of all calls made for the step, in USD; `None` when it is unknown."""
    attempts: int = 0
    """Number of the call it came of, from 1: a step that replaces a superseded one goes on
    counting from there; 0 for a step that never started."""
    calls: tuple[Call, ...] = ()
    """The calls made for the step, in order, where there was more than one; else empty."""
    maybe_paid: bool = False
    """Whether some of what it cost is not known to be on the bill: a call was sent, its end not seen."""
    reused: bool = False
    """Whether it was not called for, but taken from what was paid for before."""
    cache_key: str = ""
    """The key of the cached answer that was reused; empty if none was."""
    tool_calls: tuple[Part, ...] = ()
    """Calls its worker asks the run's caller to make, as OpenAI writes them."""
    shown: tuple[int, ...] | None = None
    """The steps whose output it was given; `None` where these are all on its access list."""
    started: float | None = None
    """Seconds since the run began; `None` for a step that never started. Time for which a run
    rested, until it was resumed, does not count."""
    ended: float | None = None
    """Seconds since the run began, likewise."""

    def as_call(self) -> Call:
        """Return all that was spent on the step as one call, for the bill of a step that runs again."""
        return Call(
            attempt=self.attempts,
            worker=self.worker,
            problem=self.problem or Problem("superseded", "the step was run again"),
            usage=self.usage,
            cost=self.cost,
            maybe_paid=self.maybe_paid,
        )

    @property
    def seconds(self) -> float:
        """How long the step ran; 0 when it never started."""
        return 0.0 if self.started is None or self.ended is None else self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One call of a planner: the text that it wrote, and whether that is the plan."""

    planner: str
    text: str
    role: Literal["plan", "repair", "fallback"] = "plan"
    """What was asked for: a plan, a plan in place of a bad one, or a plan of the fallback planner."""
    asked: bool = True
    """Whether the planner was called; a call that may not be made, or does not fit the limits, is not."""
    why: str = ""
    """What the planner says of its choice, where it does."""
    problem: Problem | None = None
    """Why the text is not the plan; `None` for the one that is."""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """In USD; `None` when it is unknown."""
    maybe_paid: bool = False
    """Whether nobody knows if it is on the bill: the planner was asked, and its end was not seen."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One plan and its execution."""

    number: int
    """From 1."""
    plan: Plan | None
    """`None` when no plan could be had; a plan of no steps kept the previous answer."""
    planner: PlannedBy | None = None
    """Who wrote the plan; `None` when there is none."""
    proposals: tuple[Proposal, ...] = ()
    """Every call of a planner for it, in order; empty when the user gave the plan."""
    outcomes: tuple[Outcome, ...] = ()
    """One per step, in the plan's order, then those of steps that a repaired plan superseded."""
    why: str = ""
    """Why there was this round, or why it was the last."""
    check: Outcome | None = None
    """What a worker that judged the answer came to, as a step after the last; `None` without one."""


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Add up costs in USD; unknown as soon as one is."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
