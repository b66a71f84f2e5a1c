"""The actions of a run and its nested runs: what was carried out, and what another plan would only repeat.

An equal action is carried out as often as one plan asks for it. The k-th asking of a plan takes the k-th
recorded action with an equal key, also if another plan or another process carried it out.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Self

from podium.secrets import scrub
from podium.types.events import ActionDecided, AttemptFailed, Event, StepEnded, StepStarted
from podium.types.outcome import Action, Outcome, Problem
from podium.usage import Usage

UNDECIDED = "action_unknown"
"""Problem code: it is not known whether an equal action was carried out."""
AGAIN = "acted_again"
"""Problem code: an agent acted for an earlier plan, too."""
CONFIRMED = "This was done: a person confirmed it."
"""The output of an action that a person has declared as done."""


def action_key(worker: str, asked: str) -> str:
    """Return the hash of an action; secrets are left out, because journals have no secrets."""
    return sha256(scrub(json.dumps([worker, asked])).encode("utf-8", "surrogatepass")).hexdigest()


class Execution:
    """One action that was begun.

    Args:
        action: the action; its `end` is `unknown` until the end is known.
        is_nested_run: whether it is a nested run of this process, whose own actions are recorded one by one.
    """

    __slots__ = ("action", "is_nested_run", "is_running", "outcome")

    def __init__(self, action: Action, *, is_nested_run: bool = False) -> None:
        self.action = action
        self.is_nested_run = is_nested_run
        self.outcome: Outcome | None = None
        """The outcome of its step; `None` if it is not known."""
        self.is_running = False

    def end(self, outcome: Outcome) -> None:
        """Set the end of the action."""
        output = outcome.text or ("" if outcome.problem is None else outcome.problem.message)
        self.action = replace(self.action, end=outcome.action or "unknown", output=output)
        self.outcome, self.is_running = outcome, False

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
    """The actions of one run, and of the runs around it and nested in it.

    Args:
        outer: the log of the outer run; `None` for a run that a user started.
        recorded: the actions that were recorded before the run was resumed.
    """

    def __init__(self, outer: Self | None = None, recorded: Iterable[Execution] = ()) -> None:
        self.outer = outer
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
        self.taken, self.nested = [], []

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

    def undecided(self, key: str) -> Action | None:
        """Return an equal action of which nobody knows whether it was carried out; else `None`."""
        return next(
            (
                each.action
                for each in self.begun
                if each.action.key == key
                and each.action.end == "unknown"
                and each.counts
                and not each.is_running
            ),
            None,
        )

    def recorded(self, asking: Action) -> Execution | None:
        """Return the action that an asking takes: of the same run, round and step, else the earliest."""
        taken = {id(each) for each in _taken(self._root)}
        free = [
            each
            for each in self.begun
            if each.action.key == asking.key and each.counts and not each.is_running and id(each) not in taken
        ]
        return min(free, key=lambda each: _distance(each.action, asking), default=None)

    def take(self, execution: Execution) -> None:
        """Count an action as asked for by the current plan."""
        self.taken.append(execution)

    def earlier(self, action: Action) -> Action | None:
        """Return another action of the same worker for an earlier plan of the run; `None` without one."""
        return next(
            (each.action for each in self.begun if each.counts and _before(each.action, action)), None
        )

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that may have changed something, in the order in which they began."""
        return tuple(each.action for each in self.begun if each.counts)

    def of_run(self, run_id: str) -> tuple[Action, ...]:
        """Return the actions of the run and of its nested runs; for a nested run, only its own.

        The others of a nested run's log are of the runs around it, and may be in flight.
        """
        found = self.actions
        return found if self.outer is None else tuple(each for each in found if each.run_id == run_id)

    @property
    def _root(self) -> "ActionLog":
        log = self
        while log.outer is not None:
            log = log.outer
        return log


def _taken(log: ActionLog) -> Iterator[Execution]:
    """Yield the actions that the current plan, and the plans of its nested runs, have asked for."""
    yield from log.taken
    for nested in log.nested:
        yield from _taken(nested)


def executions_of(runs: Iterable[Sequence[Event]]) -> list[Execution]:
    """Return the recorded actions of a run and its nested runs.

    An action without a recorded end counts as unknown: the process may have died during the call. A step may
    also take, or wait for a decision on, an action of another run, as in a replay or in the turn after tool
    calls; then this run counts it, too.
    """
    runs = tuple(runs)
    found = [execution for events in runs for execution in _begun_in(events)]
    for events in runs:
        found += _taken_from_elsewhere(events, found)
    return found


def _begun_in(events: Sequence[Event]) -> list[Execution]:
    """Return the actions that a run has begun."""
    found: list[Execution] = []
    last: dict[tuple[int, int], Execution] = {}
    for event in events:
        match event:
            case StepStarted() if event.action:
                place = (event.round, event.step)
                last[place] = Execution(_begun(event), is_nested_run=event.nests)
                found.append(last[place])
            case AttemptFailed() if (event.round, event.step) in last:  # it did not reach the worker
                last[event.round, event.step].decide(done=False)
            case StepEnded() if event.outcome.action and event.attempt:
                ended = last.get((event.round, event.step))
                if ended is not None and (not event.outcome.reused or ended.action.end == "unknown"):
                    ended.end(event.outcome)  # a host may have stored the end that the record lacks
            case ActionDecided() if (event.round, event.step) in last:
                last[event.round, event.step].decide(done=event.done)
            case _:
                pass  # it says nothing about an action
    return found


def _taken_from_elsewhere(events: Sequence[Event], found: Sequence[Execution]) -> list[Execution]:
    """Return the actions of other runs that steps of a run have taken, or wait for.

    Args:
        events: the events of the run.
        found: the actions that the run, and the runs around it and nested in it, have begun.
    """
    others: list[Execution] = []
    steps: dict[tuple[int, str], set[int]] = {}
    """By round and key: the steps that took an action without carrying it out."""
    for event in events:
        if isinstance(event, ActionDecided):
            for each in others:
                if (each.action.round, each.action.step) == (event.round, event.step):
                    each.decide(done=event.done)
        if not isinstance(event, StepEnded) or event.outcome.action in (None, "not_done"):
            continue
        alike = [each for each in (*found, *others) if each.action.key == event.key]
        if event.outcome.reused:
            taken = steps.setdefault((event.round, event.key), set())
            taken.add(event.step)
            own = [each for each in alike if each.action.run_id == event.run_id]
            if len(taken) <= len(own):
                continue
        elif event.attempt or alike:
            continue
        action = Action(
            run_id=event.run_id,
            round=event.round,
            step=event.step,
            worker=event.outcome.worker,
            asked="",
            key=event.key,
        )
        others.append(Execution(action))
        others[-1].end(event.outcome)
    return others


def _distance(action: Action, asking: Action) -> int:
    """Return how far a recorded action is from an asking; a replay has another run id than its record."""
    if (action.round, action.step) != (asking.round, asking.step):
        return 2
    return 0 if action.run_id == asking.run_id else 1


def _before(one: Action, other: Action) -> bool:
    """Return whether an action was asked for by an earlier plan of the same run, of the same worker."""
    return (one.run_id, one.worker) == (other.run_id, other.worker) and one.round < other.round


def _begun(event: StepStarted) -> Action:
    return Action(
        run_id=event.run_id,
        round=event.round,
        step=event.step,
        worker=event.worker,
        asked=event.asked,
        key=event.action,
    )


def outcome_again(execution: Execution, asking: Action) -> Outcome:
    """Return the outcome of a step that takes an action which was carried out before.

    The cost counts only in the step that carried out the action.
    """
    outcome, action = execution.outcome, execution.action
    assert outcome is not None
    if action.end == "failed" and outcome.problem is not None:
        told = f"{outcome.problem.message}; it is not carried out again: {remedy(action)}"
        outcome = replace(outcome, problem=Problem(outcome.problem.code, told))
    if (action.run_id, action.round, action.step) == (asking.run_id, asking.round, asking.step):
        return replace(outcome, reused=True)
    return without_cost(outcome, asking.round, asking.step)


def without_cost(outcome: Outcome, number: int, step: int) -> Outcome:
    """Return the outcome of another step as reused by this round and step, without its cost."""
    return replace(
        outcome,
        round=number,
        step=step,
        usage=Usage(),
        cost=0.0,
        attempts=0,
        calls=(),
        maybe_paid=False,
        charged="usage",
        reused=True,
        started=None,
        ended=None,
    )


def undecided_problem(action: Action) -> Problem:
    """Return the problem of an action whose end is unknown; equal actions do not start."""
    where = f"step {action.step} of round {action.round} of run {action.run_id}"
    told = f"it is not known whether an action was carried out ({action.worker}, {where})"
    return Problem(UNDECIDED, f"{told}: {remedy(action)}")


def remedy(action: Action) -> str:
    """Return how a person decides on an action whose end is unknown, or which has failed."""
    words = "not-done" if action.end == "failed" else "done|not-done"
    return f"see for yourself, then `podium decide {action.run_id} --action {action.step} {words}`"


def again_problem(earlier: Action, asked: str) -> Problem:
    """Return the problem of an agent that has acted for an earlier plan, and now acts for another."""
    told = f"the agent acted twice: for round {earlier.round} ({earlier.asked[:200]!r})"
    return Problem(AGAIN, f"{told}, and for this plan ({asked[:200]!r}): check that both were wanted")
