"""The actions of a run and of the runs that it started: what has begun, what has ended, what nobody knows."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from re import sub
from shlex import quote
from typing import NamedTuple, Self

from podium.secrets import scrub
from podium.types.outcome import Action, Outcome, Problem
from podium.types.plan import Plan
from podium.usage import Usage
from podium.workers.worker import Caller, Worker

UNDECIDED = "action_unknown"
"""Problem code: it is not known whether an equal action was carried out."""
AGAIN = "acted_again"
"""Problem code: an agent acted for an earlier plan, too."""
UNSURE = "it is not known whether"
"""How texts on an action with an unknown end begin."""
_MOST_ASKED = 80
"""Longest excerpt of what an action was asked to do, in characters."""
_TOLD = 5
"""The most actions that a problem names beside the first."""
CONFIRMED = "This was done: a person confirmed it."
"""The output of an action that a person has declared as done."""


Path = tuple[str, ...]
"""The name of a worker, after the names of the workers that it works for, the outermost first."""


class Level(NamedTuple):
    """A step on the way from the run of a user to an action in one of its nested runs."""

    run_id: str
    round: int
    step: int
    plan: str
    """The hash of the plan that asked for the step; empty if it is unknown."""
    name: str = ""
    """The name of an execution inside of a map or a block, which the items of a map over a list share.

    An execution has the same name in each round of a plan, but not the same step: the steps of executions
    are numbered as they start."""

    @property
    def asking(self) -> int | str:
        """What asks for the action: a step, or all items of a map over a list."""
        return self.name or self.step


def shared_name(path: str) -> str:
    """Return the name of an execution, which it shares with the other items of maps over lists."""
    return sub(r"\[[^]]*\]", "[]", path)


def plan_hash(plan: Plan, workers: Sequence[str]) -> str:
    """Return the hash of a plan; secrets are left out, because journals have no secrets."""
    if plan.is_workflow:
        return hash_of(plan.to_json(workers)["steps"])
    return hash_of(
        [[workers[step.worker], step.subtask, step.access, step.previous, step.least] for step in plan.calls]
    )


def action_key(worker: str, asked: str) -> str:
    """Return the hash of an action; secrets are left out, because journals have no secrets."""
    return hash_of([worker, asked])


def hash_of(told: object) -> str:
    """Return the hash of JSON data without secrets."""
    return sha256(scrub(json.dumps(told)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True, eq=False)
class Execution:
    """One action that was begun."""

    action: Action
    """The action; its `end` is `unknown` until the end is known."""
    path: Path = field(kw_only=True, default=())
    """The path of its worker."""
    levels: tuple[Level, ...] = field(kw_only=True, default=())
    """The steps around it, from the run of a user to its own step."""
    is_nested_run: bool = field(kw_only=True, default=False)
    """Whether it is a nested run of this process, whose own actions are recorded one by one."""
    outcome: Outcome | None = field(kw_only=True, default=None)
    """The outcome of its step; `None` if it is not known."""
    is_running: bool = field(kw_only=True, default=False)
    takers: list[tuple[Level, ...]] = field(kw_only=True, default_factory=list)
    """For each asking of another plan that took the action: the steps around it."""

    def inside(self, path: Path, levels: tuple[Level, ...]) -> "Execution":
        """Return a copy inside of further workers and steps."""
        return replace(self, path=(*path, *self.path), levels=(*levels, *self.levels))

    def end(self, outcome: Outcome) -> None:
        """Set the end of the action."""
        output = outcome.text or ("" if outcome.problem is None else outcome.problem.message)
        self.action = replace(self.action, end=outcome.action or "unknown", output=output)
        self.outcome, self.is_running = outcome, False

    def move(self, asking: Action) -> None:
        """Give the action the place of a step that asks for it, if the step is of the same run."""
        if asking.run_id == self.action.run_id:
            self.action = replace(self.action, round=asking.round, step=asking.step, path=asking.path)

    def is_decided_by(self, outcome: Outcome) -> bool:
        """Return whether an outcome, which a host has stored or a person edited, is later than the end."""
        return self.action.end == "unknown" or (self.action.end == "failed" and outcome.action != "failed")

    def decide(self, *, done: bool) -> None:
        """Set whether the action was carried out, as a person has said."""
        ended = self.outcome
        if not done:
            self.action = replace(self.action, end="not_done")
            return
        self.action = replace(self.action, end="done", output=CONFIRMED)
        action = self.action
        if ended is None:
            ended = Outcome(round=action.round, step=action.step, worker=action.worker, status="ok")
        self.outcome = replace(ended, status="ok", text=CONFIRMED, problem=None, action="done")

    @property
    def counts(self) -> bool:
        """Whether an equal asking takes this action, or waits for a decision on it."""
        if self.action.end == "not_done":
            return False
        return not self.is_nested_run or self.action.end == "done"


class ActionLog:
    """The actions of one run, and of the runs around it (see `outer` and `caller`) and nested in it."""

    def __init__(
        self,
        run_id: str = "",
        workers: Sequence[Worker] = (),
        *,
        recorded: Iterable[Execution] = (),
        outer: Self | None = None,
        caller: Caller | None = None,
        remedy: Callable[[Action, str], str] | None = None,
    ) -> None:
        self.outer = outer
        own = by_command if outer is None else outer.how_to_decide
        self.how_to_decide: Callable[[Action, str], str] = remedy or own
        self._plan: tuple[Plan, Sequence[str]] | None = None
        """The current plan, with the names of the pool's workers; `None` until it is complete."""
        self._run_id = run_id
        self._caller = caller
        self.places: Mapping[Path, Path] = _places(workers) if outer is None else outer.places
        """The outermost path for each path in the pool of the outermost run, and in its conductors' pools."""
        self.begun: list[Execution] = list(recorded) if outer is None else outer.begun
        """The actions of all these runs, in the order in which they began."""
        self.taken: list[Execution] = []
        """The actions that the current plan has asked for."""
        self.nested: list[Self] = []
        """The logs of the runs that the current plan has started."""
        self.has_begun = False
        """Whether the run, or a run nested in it, has begun an action in this process."""
        if outer is not None:
            outer.nested.append(self)

    def new_plan(self) -> None:
        """Begin the askings of another plan: it may take all actions of earlier plans."""
        self.taken, self.nested, self._plan = [], [], None

    def accept(self, plan: Plan, workers: Sequence[str]) -> None:
        """Set the current plan, which asks for the actions."""
        self._plan = plan, workers

    def path(self, worker: str) -> Path:
        """Return the path of a worker of the run."""
        outer, caller = self.outer, self._caller
        return (worker,) if outer is None or caller is None else (*outer.path(caller.worker), worker)

    def levels(self, number: int, step: int, path: str = "") -> tuple[Level, ...]:
        """Return the steps around an action of a round's step, and the step of the action itself."""
        outer, caller = self.outer, self._caller
        around = (
            () if outer is None or caller is None else outer.levels(caller.round, caller.step, caller.path)
        )
        plan = "" if self._plan is None else plan_hash(*self._plan)
        return (*around, Level(self._run_id, number, step, plan, shared_name(path)))

    def forget(self, logs: Iterable[Self]) -> None:
        """Count the askings of nested runs no longer, because another call of the same step replaces them."""
        for log in logs:
            if log in self.nested:
                self.nested.remove(log)

    def begin(self, execution: Execution) -> None:
        """Add an action that is about to be carried out for the current plan."""
        execution.is_running = True
        log: ActionLog | None = self
        while log is not None:
            log.has_begun, log = True, log.outer
        self.begun.append(execution)
        self.taken.append(execution)

    def undecided(self, asking: Action) -> Execution | None:
        """Return an equal action of which nobody knows whether it was carried out; else `None`."""
        own = self.recorded(asking)
        if own is not None and own.action.end != "unknown" and not _distance(own.action, asking):
            return None
        unknown = [each for each in self._equal(asking) if each.action.end == "unknown"]
        free = [each for each in unknown if each not in self.taken]
        return min(free or unknown, key=lambda each: _distance(each.action, asking), default=None)

    def untold(self, problem: Problem | None) -> Problem | None:
        """Return the problem of an action with an unknown end, if the run's problem tells of none."""
        unknown = self._unknown
        is_told = problem is not None and UNSURE in problem.message
        return undecided_problem(unknown[0]) if unknown and not is_told else None

    def with_remedy(self, problem: Problem | None) -> Problem | None:
        """Return the problem of a run with how a person decides on its actions with an unknown end."""
        unknown = self._unknown
        if problem is None or not unknown or self.outer is not None:  # the outermost run says it
            return problem
        untold, (first, *others) = self.untold(problem), unknown
        told = problem.message if untold is None else f"{problem.message}; {untold.message}"
        told += f": {self.remedy(first)}"
        if others:
            names = [
                f"step {each.name} of round {each.round}"
                + ("" if each.run_id == first.run_id else f" of run {each.run_id}")
                for each in others[:_TOLD]
            ]
            names += [f"{len(others) - _TOLD} more"] if len(others) > _TOLD else []
            told += f"; decide in the same way on {', '.join(names)}"
        return replace(problem, message=told)

    @property
    def _unknown(self) -> list[Action]:
        return [action for action in self.actions if action.end == "unknown"]

    def remedy(self, action: Action) -> str:
        """Return how a person decides on an action whose end is unknown, or which has failed."""
        open_ones = [each.action for each in self.begun if each.counts and each.action.end != "done"]
        alike = [each for each in open_ones if (each.run_id, each.name) == (action.run_id, action.name)]
        is_alone = all(each.key == action.key for each in alike if each.round == action.round)
        options = f"--action {quote(action.name if is_alone else action.short_key)}"
        if action.round > 1 or any(each.round > 1 for each in alike):
            options += f" --round {action.round}"
        return self.how_to_decide(action, options)

    def recorded(self, asking: Action) -> Execution | None:
        """Return the action that an asking takes: of the same run, round and step, else the earliest."""
        taken, levels = self._taken_by_plans(), self.levels(asking.round, asking.step, asking.path)
        equal = [each for each in self._equal(asking) if not _is_of_another_step(each.levels, levels)]
        for each in equal:
            if id(each) in taken and any(_ask_together(one, levels) for one in (each.levels, *each.takers)):
                return each
        free = [each for each in equal if id(each) not in taken]
        return min(free, key=lambda each: _distance(each.action, asking), default=None)

    def _equal(self, asking: Action) -> list[Execution]:
        """Return the ended actions with the same worker, also of another pool, and the same arguments."""
        place = self._place(self.path(asking.worker))
        alike = [each for each in self.begun if each.action.key == asking.key]
        return [
            each for each in alike if each.counts and not each.is_running and self._place(each.path) == place
        ]

    def has(self, asking: Action) -> bool:
        """Return whether this action of this step of the run was begun, also if it was not carried out."""
        place = asking.run_id, asking.round, asking.step, asking.key
        begun = (each.action for each in self.begun)
        return any((each.run_id, each.round, each.step, each.key) == place for each in begun)

    def take(self, execution: Execution, asking: Action) -> None:
        """Count an action as asked for by a step of the current plan, whose number it gets."""
        if execution not in self.taken:
            execution.move(asking)
        execution.takers.append(self.levels(asking.round, asking.step, asking.path))
        self.taken.append(execution)
        if execution.levels:
            self.take_inside(execution.levels[-1])

    def take_inside(self, step: Level) -> None:
        """Count the actions of a step's nested runs as asked for, because the step's result is reused."""
        place = step[:3]
        self.taken += [each for each in self.begun if any(at[:3] == place for at in each.levels[:-1])]

    def of_another_plan(self, action: Action) -> Action | None:
        """Return an action of the same worker that another plan has asked for; `None` without one."""
        place, levels = (
            self._place(self.path(action.worker)),
            self.levels(action.round, action.step, action.path),
        )
        taken = self._taken_by_plans()
        others = (
            each.action
            for each in self.begun
            if each.counts
            and id(each) not in taken
            and each.action.key != action.key
            and self._place(each.path) == place
            and _are_of_two_plans(each.levels, levels)
        )
        return next(others, None)

    def _place(self, path: Path) -> Path:
        """Return the outermost path of a worker: two pools may have the same worker."""
        return self.places.get(path, path)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that may have changed something, of the run and its nested runs, in order."""
        known = [each for each in self.begun if each.counts]
        if self.outer is not None:
            known = [each for each in known if any(at.run_id == self._run_id for at in each.levels)]
        return tuple([each.action for each in known])

    def _taken_by_plans(self) -> set[int]:
        """Return the ids of the actions that the current plans of all these runs have asked for."""
        log, found = self, set[int]()
        while log.outer is not None:
            log = log.outer
        logs = [log]
        for each in logs:  # the loop appends to `logs`
            found |= {id(execution) for execution in each.taken}
            logs += each.nested
        return found


def _places(workers: Sequence[Worker]) -> dict[Path, Path]:
    """Return the outermost path for each path in a pool and in the pools of its conductors."""
    found: dict[Path, Path] = {}
    first: dict[int, Path] = {}
    pools: list[tuple[Path, Sequence[Worker]]] = [((), workers)]
    for around, pool in pools:  # the loop appends to `pools`
        for worker in pool:
            path = (*around, worker.card.name)
            found[path] = first.setdefault(id(worker), path)
            inner = getattr(worker, "pool", None)
            if inner is not None:
                pools.append((path, inner.workers))
    return found


def _is_of_another_step(one: Sequence[Level], other: Sequence[Level]) -> bool:
    """Return whether one plan asked for two actions in two of its steps, so that each step has its own."""
    for first, second in zip(one, other, strict=False):
        if first.plan != second.plan or not first.plan:
            return False
        if first.asking != second.asking:
            return True
    return False


def _ask_together(one: Sequence[Level], other: Sequence[Level]) -> bool:
    """Return whether two actions were asked for by items of one map over a list."""
    places = [[(each.round, each.plan, each.asking) for each in levels] for levels in (one, other)]
    return places[0] == places[1] and any("[]" in each.name for each in one)


def _are_of_two_plans(one: Sequence[Level], other: Sequence[Level]) -> bool:
    """Return whether two plans asked for two actions, and not two steps of one plan."""
    # The ids of the outermost runs may differ, because a replay has another id than its record.
    for depth, (first, second) in enumerate(zip(one, other, strict=False)):
        if depth and first.run_id != second.run_id:
            return True  # the step was asked for twice
        if first.plan != second.plan:
            return True
        if first.asking != second.asking:
            return False
    return False


def _distance(action: Action, asking: Action) -> int:
    """Return how far a recorded action is from an asking; a replay has another run id than its record."""
    if (action.round, action.step) != (asking.round, asking.step):
        return 2
    return 0 if action.run_id == asking.run_id else 1


def outcome_again(execution: Execution, asking: Action, remedy: str) -> Outcome:
    """Return the outcome of a step that takes an earlier action, whose cost counts only where it was done."""
    outcome, action = execution.outcome, execution.action
    assert outcome is not None
    if action.end == "failed" and outcome.problem is not None:
        told = f"{outcome.problem.message}; it is not carried out again: {remedy}"
        outcome = replace(outcome, problem=Problem(outcome.problem.code, told))
    if (action.run_id, outcome.round, outcome.step) == (asking.run_id, asking.round, asking.step):
        return replace(outcome, reused=True)
    return without_cost(outcome, asking.round, asking.step)


def without_cost(outcome: Outcome, number: int, step: int) -> Outcome:
    """Return the outcome of another step as reused by this round and step, without its cost."""
    outcome = replace(unpaid(outcome), round=number, step=step, attempts=0, reused=True)
    return replace(outcome, started=None, ended=None)


def unpaid(outcome: Outcome) -> Outcome:
    """Return an outcome without its calls, whose cost another record has."""
    return replace(outcome, usage=Usage(), cost=0.0, calls=(), maybe_paid=False, charged="usage")


def undecided_problem(action: Action) -> Problem:
    """Return the problem of an action whose end is unknown; equal actions do not start."""
    where = f"step {action.name} of round {action.round} of run {action.run_id}"
    asked = action.asked if len(action.asked) <= _MOST_ASKED else f"{action.asked[: _MOST_ASKED - 1]}…"
    return Problem(UNDECIDED, f"{UNSURE} an action was carried out ({action.worker} {asked}, {where})")


def by_command(action: Action, options: str) -> str:
    """Return how a person decides on an action in a journal; see `ActionLog.remedy`.

    Args:
        action: the action.
        options: the options of `podium decide` that name the action.
    """
    how = f"`podium decide {action.run_id} {options} done|not-done` or `Conductor.decide`"
    return f"see for yourself, decide with {how}, then {how_to_continue('RUN')}"


def how_to_continue(run_id: str) -> str:
    """Return how a run is continued after a decision, at a terminal and in a framework."""
    by_name = "repeat the call if it names the run (by its id, thread or session)"
    return f"{by_name}, else use `podium resume {run_id}` or `Conductor.resume`"


def again_problem(other: Action, asked: str) -> Problem:
    """Return the problem of an agent that has acted for another plan, and now acts for this one."""
    acted = "may have acted" if other.end == "unknown" else "acted"
    told = f"the agent {acted} twice: for another plan, of round {other.round} ({other.asked[:200]!r})"
    return Problem(AGAIN, f"{told}, and for this plan ({asked[:200]!r}): check that both were wanted")
