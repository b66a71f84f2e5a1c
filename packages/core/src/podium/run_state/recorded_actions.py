"""The actions that the events of a run and its nested runs tell of."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from podium.run_state.action_log import Execution, Level, Path, plan_hash
from podium.types.events import (
    ActionDecided,
    AttemptFailed,
    Event,
    PlanReady,
    RunResumed,
    RunStarted,
    StepEnded,
    StepStarted,
    WorkerRunEnded,
)
from podium.types.outcome import Action, Outcome, Problem


def executions_of(runs: Iterable[Sequence[Event]]) -> list[Execution]:
    """Return the recorded actions of a run and its nested runs.

    An action without a recorded end counts as unknown: the process may have died during the call. A step may
    also take, or wait for a decision on, an action of another run, as in a replay or in the turn after tool
    calls; then this run counts it, too.
    """
    recorded = {events[0].run_id: _Recorded(events) for events in runs if events}
    for run in recorded.values():
        run.outer = recorded.get(run.parent[0])
    found = [execution for run in recorded.values() for execution in _begun_in(run, recorded)]
    for run in recorded.values():
        found += _taken_from_elsewhere(run, recorded)
    return found


class _Called(NamedTuple):
    """A call of a step's worker."""

    worker: str
    own: str
    """The worker that the plan names; the called one may be its fallback."""
    plan: str


_UNKNOWN = _Called("", "", "")


class _Recorded:
    """A recorded run, with the workers and plans of its steps.

    Args:
        events: its events.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.run_id = events[0].run_id
        self.outer: _Recorded | None = None
        first = events[0]
        self.parent = (isinstance(first, RunStarted) and first.parent) or ("", 0, 0, 0)
        self.calls: dict[tuple[int, int, int], _Called] = {}
        """By round, step and attempt; a changed plan may begin a step's attempts again."""
        self.called: list[_Called] = []
        """The call of each event; unknown for events of no step."""
        names: Sequence[str] = ()
        plans: dict[int, tuple[str, list[str]]] = {}
        for event in events:
            self.called.append(_UNKNOWN)
            match event:
                case RunStarted() | RunResumed():
                    names = event.workers
                case PlanReady():
                    planned = [names[step.worker] for step in event.plan.steps]
                    plans[event.round] = plan_hash(event.plan, names), planned
                case StepStarted() | StepEnded():
                    plan, workers = plans.get(event.round, ("", []))
                    called = event.worker if isinstance(event, StepStarted) else event.outcome.worker
                    own = workers[event.step] if event.step < len(workers) else called
                    place = (event.round, event.step, event.attempt)
                    self.called[-1] = _Called(called, own, plan)
                    if isinstance(event, StepStarted) or place not in self.calls:
                        self.calls[place] = self.called[-1]
                case _:
                    pass  # it says nothing about a call

    def around(self, number: int, step: int, call: _Called) -> tuple[Path, tuple[Level, ...]]:
        """Return the path of a call's worker, as the plan names it, and the steps around the call."""
        path, levels = ((), ()) if self.outer is None else self.outer.inside(*self.parent[1:])
        return (*path, call.own), (*levels, Level(self.run_id, number, step, call.plan))

    def inside(self, number: int, step: int, attempt: int) -> tuple[Path, tuple[Level, ...]]:
        """Return the path of the worker that was called, and the steps around its nested runs."""
        call = self.calls.get((number, step, attempt), _UNKNOWN)
        path, levels = self.around(number, step, call)
        return (*path[:-1], call.worker), levels


def _begun_in(run: _Recorded, recorded: Container[str]) -> list[Execution]:
    """Return the actions that a run has begun, and those of runs that its workers' code started.

    Args:
        run: the run.
        recorded: the ids of the runs whose events are known.
    """
    found: list[Execution] = []
    last: dict[tuple[int, int], Execution] = {}
    for event, call in zip(run.events, run.called, strict=True):
        match event:
            case StepStarted() if event.action:
                path, levels = run.around(event.round, event.step, call)
                action = Execution(_begun(event), path=path, levels=levels, is_nested_run=event.nests)
                last[event.round, event.step] = action
                found.append(action)
            case AttemptFailed() if (event.round, event.step) in last:  # it did not reach the worker
                last[event.round, event.step].decide(done=False)
            case StepEnded() if event.outcome.action and event.attempt:
                ended = last.get((event.round, event.step))
                if ended is not None and (not event.outcome.reused or ended.action.end == "unknown"):
                    ended.end(event.outcome)  # a host may have stored the end that the record lacks
            case ActionDecided() if (event.round, event.step) in last:
                last[event.round, event.step].decide(done=event.done)
            case WorkerRunEnded() if event.nested not in recorded:
                path, levels = run.inside(event.round, event.step, event.attempt)
                found += [_of_other_run(action, path, levels) for action in event.actions]
            case _:
                pass  # it says nothing about an action
    return found


def _of_other_run(action: Action, path: Path, levels: tuple[Level, ...]) -> Execution:
    """Return an action of a run that the code of a worker started, with only its end.

    Args:
        action: the action.
        path: the path of the worker.
        levels: the steps around the run.
    """
    level = Level(action.run_id, action.round, action.step, "")
    found = Execution(action, path=(*path, action.worker), levels=(*levels, level))
    problem = None if action.end == "done" else Problem("worker_failed", action.output)
    found.outcome = Outcome(
        round=action.round,
        step=action.step,
        worker=action.worker,
        status="ok" if action.end == "done" else "failed",
        text=action.output if action.end == "done" else "",
        problem=problem,
        action=action.end,
    )
    return found


def _taken_from_elsewhere(run: _Recorded, ids: Container[str]) -> list[Execution]:
    """Return the actions of other runs that steps of a run have taken, or wait for.

    Args:
        run: the run.
        ids: the ids of the run, and of the runs around it and nested in it.
    """
    others: dict[tuple[str, int, int], Execution] = {}
    for event, call in zip(run.events, run.called, strict=True):
        match event:
            case ActionDecided():
                for each in others.values():
                    if (each.action.round, each.action.step) == (event.round, event.step):
                        each.decide(done=event.done)
            case StepEnded() if event.took is not None and event.took.run_id not in ids:
                took = event.took
                here = replace(took, run_id=event.run_id, round=event.round, step=event.step)
                path, levels = run.around(event.round, event.step, call)
                other = others.setdefault(
                    (took.run_id, took.round, took.step), Execution(here, path=path, levels=levels)
                )
                other.end(event.outcome)
            case _:
                pass  # it takes no action
    return list(others.values())


def _begun(event: StepStarted) -> Action:
    return Action(
        run_id=event.run_id,
        round=event.round,
        step=event.step,
        worker=event.worker,
        asked=event.asked,
        key=event.action,
    )
