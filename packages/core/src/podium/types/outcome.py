"""The results of a round, and their description in words. Pure data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, TypedDict

from podium.budget.ledger import UNREPORTED, Charged, weakest
from podium.errors import PodiumError, RunWaiting, WorkerError, actions_told
from podium.secrets import scrub
from podium.types.messages import Completion, FinishReason, Message, Part, names_of, storable
from podium.types.plan import Plan, PlannedBy
from podium.types.steps import plan_step
from podium.usage import Usage

StepStatus = Literal["ok", "failed", "skipped", "cancelled"]
ActionEnd = Literal["done", "failed", "unknown", "not_done"]
"""How an action ended.

- `done`: the worker carried it out.
- `failed`: the worker raised an error; it may have carried out a part.
- `unknown`: the worker was called and sent no answer, for example after a timeout. Equal actions do not start
  until a person decides: see `Conductor.decide`.
- `not_done`: the call certainly did not reach the worker, or there was no call.
"""
ACTION_ENDS = {
    "done": "done",
    "failed": "failed",
    "unknown": "not known whether it is done",
    "not_done": "not done",
}
"""How an action ended, in words."""
CONDITION = "condition"
"""Problem code: a step was skipped because of a condition, of its own or of a step that it reads."""
INCOMPLETE = "partial"
"""Problem code: a worker says that its answer is incomplete."""
NO_BRANCH = "no_branch"
"""Problem code: no branch of a plan or a block ran."""
PAUSED = "tool_calls"
"""Problem code: the step has not started, because another step waits for results of the caller's tools."""
_MAX_CODE, _MAX_MESSAGE = 100, 2000
"""Maximum length of the problem of another Podium, in characters."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as data."""

    code: str
    """The stable code of the error, or of a decision that is not an error: `unseen`, `superseded`."""
    message: str
    """The error message. Secrets are removed."""
    retry_after: float | None = field(default=None, compare=False)
    """Seconds to wait before a retry, as the worker asked; `None` when it did not ask."""
    status: int | None = field(default=None, compare=False)
    """The status with which the worker's HTTP server answered; `None` if there was no such answer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", scrub(self.message))

    @classmethod
    def of(cls, error: PodiumError) -> "Problem":
        """Return `error` as data."""
        wait, status = (error.retry_after, error.status) if isinstance(error, WorkerError) else (None, None)
        return cls(error.code, str(error), wait if wait is not None and isfinite(wait) else None, status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """The tokens and the cost of one call, or of all calls of a step."""

    usage: Usage = Usage()
    cost: float | None = 0.0
    """In USD; `None` when unknown."""
    maybe_paid: bool = False
    """Whether part of `cost` may not be billed: a call was sent, and no complete response arrived."""
    charged: Charged = "usage"
    """What the cost is computed from; for several calls, the least known of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Billed):
    """One call of a worker, with its tokens and cost."""

    attempt: int
    """Number of the call among the calls for the step, from 1."""
    worker: str
    problem: Problem | None = None
    """Why the call was not used; `None` for the call that gave the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Billed):
    """How one step ended."""

    round: int
    step: int
    """Index of the step in its plan, from 0."""
    worker: str
    """Name of the worker that was called: the step's worker, or its fallback."""
    status: StepStatus
    path: str = ""
    """The name of an execution inside of a map or a block: `2[17]` is item 17 of step 2, `2[17].0` step 0 of
    its block, `3(1).0` step 0 in the first turn of loop 3. Empty for a step of the plan."""
    text: str = ""
    """The step's output; for a step that is not `ok`, the part that arrived."""
    problem: Problem | None = None
    """Why the step is not `ok`; for a step that is `ok`, why its output is incomplete. Otherwise `None`."""
    finish_reason: FinishReason | None = None
    """Why the worker stopped; `None` if it did not finish."""
    attempts: int = 0
    """Number of the call that gave the outcome, from 1; 0 for a step that never started.

    If the step replaces a superseded step, its calls continue the numbers of that step.
    """
    calls: tuple[Call, ...] = ()
    """The calls for the step, in order, if there is more than one; else empty."""
    reused: bool = False
    """Whether an earlier result was reused, without a call."""
    cache_key: str = ""
    """The key of the reused cached answer; empty if none was reused."""
    tool_calls: tuple[Part, ...] = ()
    """Tool calls for the caller of the run to execute, in OpenAI's form. The step then has no output yet: it
    waits for their results."""
    said: tuple[Message, ...] = ()
    """The messages of the worker with its earlier tool calls in this step, whose results it has seen."""
    data: Mapping[str, Any] | None = None
    """What the worker returned beside its text, as JSON data, such as the documents of a retriever; `None`
    for nothing. No other step is shown it. `nested` has the data of the steps of a nested run."""
    action: ActionEnd | None = None
    """How the action ended; `None` for other steps. A map or a block that may lack some of its actions is
    `failed`, or `not_done` if none has begun."""
    shown: tuple[int, ...] | None = None
    """The steps whose output the worker saw; `None` means all steps on its access list."""
    stands_for: int | None = None
    """The step whose output stands for this one, because its condition did not hold (`else`); else `None`."""
    started: float | None = None
    """Seconds since the run began, without the time between an interruption and the resume; `None`
    for a step that never started."""
    ended: float | None = None
    """End of the step, in the same form as `started`."""

    def as_call(self) -> Call:
        """Return the tokens and cost of all calls of the step as one call, for a step that runs again."""
        return Call(
            attempt=self.attempts,
            worker=self.worker,
            problem=self.problem or Problem("superseded", "the step was run again"),
            **totals((self,)),
        )

    @property
    def is_dropped(self) -> bool:
        """Whether a condition skipped the step, so that it drops out of access lists."""
        is_skipped = self.status == "skipped" and self.problem is not None
        return is_skipped and self.problem.code in (CONDITION, NO_BRANCH)  # type: ignore[union-attr]

    @property
    def end(self) -> str:
        """The status in words, with the tools that it calls, or the step whose output stands for this one."""
        if self.tool_calls:
            return f"calls {names_of(self.tool_calls)}"
        if self.stands_for is None:
            return self.status
        return f"{self.status}, with the output of step {self.stands_for}, which its else names"

    @property
    def is_waiting(self) -> bool:
        """Whether the step has not begun, because the run waits for an approval."""
        return self.problem is not None and self.problem.code == RunWaiting.code

    @property
    def is_paused(self) -> bool:
        """Whether the step has not begun, because another waits for results of the caller's tools."""
        return self.problem is not None and self.problem.code == PAUSED

    @property
    def is_superseded(self) -> bool:
        """Whether the step is of a plan that was replaced."""
        return self.problem is not None and self.problem.code == "superseded"

    @property
    def follows(self) -> bool:
        """Whether the step has no output because another step has none."""
        return self.status == "skipped" or (self.problem is not None and self.problem.code == "dependency")

    @property
    def name(self) -> str:
        """The name of the execution: its path, or the number of a step of the plan."""
        return self.path or str(self.step)

    @property
    def plan_step(self) -> int:
        """The index of the step of the plan that it is, or inside of which it is."""
        return plan_step(self.path) if self.path else self.step

    @property
    def seconds(self) -> float:
        """Duration of the step in seconds; 0 if it never started."""
        return 0.0 if self.started is None or self.ended is None else self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A call of a worker that may change something outside of the run."""

    run_id: str
    """The run, or the nested run, whose step it is."""
    round: int
    step: int
    """The step of the current plan that asks for it, from 0; without one, of the plan that began it."""
    path: str = ""
    """The name of an execution inside of a map or a block; see `Outcome.path`."""
    worker: str
    asked: str
    """What it was asked to do: the arguments of a tool as JSON, or the subtask."""
    key: str
    """Hash of worker and arguments; equal actions have equal keys."""
    end: ActionEnd = "unknown"
    output: str = ""
    """The output of the worker, or why it failed."""

    @property
    def name(self) -> str:
        """The name of the step; see `Outcome.name`."""
        return self.path or str(self.step)

    @property
    def short_key(self) -> str:
        """The beginning of the key, which names the action in decisions."""
        return self.key[:12]

    @property
    def place(self) -> tuple[str, int, int]:
        """The run, the round and the step of the plan that it is, or inside of which it is."""
        return self.run_id, self.round, plan_step(self.path) if self.path else self.step

    def __str__(self) -> str:
        asked = self.asked if len(self.asked) <= _MOST_ASKED else self.asked[: _MOST_ASKED - 1] + "…"
        return f"{self.worker} {asked}: {ACTION_ENDS[self.end]}"


_MOST_ASKED = 200


def answering(row: Sequence[Outcome]) -> Outcome:
    """Return the outcome that is the answer, of the steps that may give it.

    It is the last step whose condition held; if there is none, the last for which another output stands.
    """
    held = [each for each in row if not each.is_dropped and each.stands_for is None]
    stood = [each for each in row if each.stands_for is not None]
    return (held or stood or row)[-1]


def tell_actions(error: BaseException, actions: Sequence[Action]) -> None:
    """Add the actions of a run to the error that ended it; an exception of other code also gets a note."""
    error.actions = tuple(actions)  # type: ignore[attr-defined]
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        tell_actions(each, actions)
    if actions and not isinstance(error, PodiumError):
        error.add_note(actions_told(actions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Billed):
    """One call of a planner: the text that it wrote, and whether the text is the plan."""

    planner: str
    text: str
    role: Literal["plan", "repair", "fallback"] = "plan"
    """The purpose of the call: a plan, a repair of an invalid plan, or a plan of the fallback planner."""
    asked: bool = True
    """Whether the planner was called; `False` if the policy or the limits did not allow the call."""
    why: str = ""
    """Why the planner chose this plan, if it says so."""
    problem: Problem | None = None
    """Why the text is not the plan; `None` if it is the plan."""
    seconds: float = 0.0
    """Duration of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One plan and its execution."""

    number: int
    """From 1."""
    plan: Plan | None
    """`None` if there is no valid plan; a plan without steps keeps the previous answer."""
    planner: PlannedBy | None = None
    """The planner that wrote the plan; `None` if there is no plan."""
    proposals: tuple[Proposal, ...] = ()
    """The planner calls of the round, in order; empty if the user gave the plan."""
    outcomes: tuple[Outcome, ...] = ()
    """One per step, in the plan's order, then those of items and turns, then those of replaced plans."""
    why: str = ""
    """Why the round began, or why it is the last round."""
    check: Outcome | None = None
    """The outcome of the worker that judged the answer; `None` if no worker judged it."""


class Bill(TypedDict):
    """The sums of calls, with the names of the fields of an outcome."""

    usage: Usage
    cost: float | None
    maybe_paid: bool
    charged: Charged


def totals(calls: Sequence[Billed]) -> Bill:
    """Return the sums of calls."""
    if len(calls) == 1:  # the usual case; the sum is expensive
        (call,) = calls
        return Bill(usage=call.usage, cost=call.cost, maybe_paid=call.maybe_paid, charged=call.charged)
    return Bill(
        usage=Usage.total(call.usage for call in calls),
        cost=total_cost(call.cost for call in calls),
        maybe_paid=any(call.maybe_paid for call in calls),
        charged=weakest(call.charged for call in calls),
    )


def usage_note(calls: Sequence[Billed]) -> str:
    """Return how many calls are charged without a reported usage, and what; empty if there are none."""
    told = []
    for charged, words in UNREPORTED.items():
        if costs := [call.cost for call in calls if call.charged == charged]:
            cost = total_cost(costs)
            most = f", at most ${cost:.4f}" if cost else ""
            told.append(f"{len(costs)} call{'s' if len(costs) > 1 else ''} {words}{most}")
    return "; ".join(told)


def total_cost(costs: Iterable[float | None]) -> float | None:
    """Return the sum of costs in USD; `None` if one of them is unknown."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total


def inner_problem(facts: object) -> Problem | None:
    """Return why the answer of another Podium is incomplete."""
    if not isinstance(facts, Mapping) or (status := facts.get("status")) in (None, "ok"):
        return None
    code, message = "partial", f"the run of the other Podium ended {status!r:.40}"
    match facts.get("problem"):
        case {"code": str(told), "message": str(why)} if told and why:
            code, message = told, why
    return Problem(storable(code)[:_MAX_CODE], storable(message)[:_MAX_MESSAGE])


def shortfall(completion: Completion) -> Problem | None:
    """Return the problem of an answer that is incomplete; `None` for a complete answer."""
    if completion.missing is not None:
        return Problem(INCOMPLETE, completion.missing)
    if completion.finish_reason == "length":
        return Problem("cut", "the text was cut at the worker's token limit")
    return None


def for_people(problem: Problem) -> str:
    """Return the message of a problem of a planner, without the advice to the planner."""
    return "its text has no plan" if problem.code == "no_plan" else problem.message
