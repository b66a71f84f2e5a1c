"""The actions that the events of a run tell of."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from podium.run_state.action_log import Execution, Level, Path
from podium.types.events import ActionDecided, AttemptFailed, StepEnded, StepStarted, WorkerRunEnded
from podium.types.outcome import Action, Outcome, Problem

Parent = tuple[str, int, int, int]
"""Run, round, step and attempt that started a nested run."""


class RecordedActions:
    """The actions of one run."""

    def __init__(self) -> None:
        self.taken: dict[tuple[str, int, int], Execution] = {}
        """The actions that steps took because equal ones had begun, by their run, round and step."""
        self.begun: list[tuple[str, Execution]] = []
        """The actions, each with the id of the run that a worker's code started; empty for the run's own."""
        self._latest: dict[tuple[int, int], Execution] = {}
        """The latest action of each step."""
        self._called: dict[tuple[int, int, int], tuple[str, Level]] = {}
        """By round, step and attempt, which a changed plan may begin again: the worker and its step."""

    def start(self, event: StepStarted, own: str, level: Level) -> None:
        """Note a call of the worker `own`, or of its fallback."""
        place = (event.round, event.step)
        self._called[*place, event.attempt] = event.worker, level
        if event.action:
            action = Action(
                run_id=event.run_id,
                round=event.round,
                step=event.step,
                worker=event.worker,
                asked=event.asked,
                key=event.action,
            )
            begun = Execution(action, path=(own,), levels=(level,), is_nested_run=event.nests)
            self._latest[place] = begun
            self.begun.append(("", begun))

    def fail(self, event: AttemptFailed) -> None:
        """Note that an action did not reach its worker."""
        if (begun := self._latest.get((event.round, event.step))) is not None:
            begun.decide(done=False)

    def end(self, event: StepEnded, own: str, level: Level) -> None:
        """Note the end of a step."""
        outcome, took, place = event.outcome, event.took, (event.round, event.step)
        self._called.setdefault((*place, event.attempt), (outcome.worker, level))
        begun = self._latest.get(place) if outcome.action and event.attempt else None
        if begun is not None and (not outcome.reused or begun.action.end == "unknown"):
            begun.end(outcome)  # a host may have stored the end that the record lacks
        if took is not None:
            here = replace(took, run_id=event.run_id, round=event.round, step=event.step)
            taken = Execution(here, path=(own,), levels=(level,))
            self.taken.setdefault((took.run_id, took.round, took.step), taken).end(outcome)

    def decide(self, event: ActionDecided) -> None:
        """Note what a person said of an action."""
        place = (event.round, event.step)
        taken = [each for each in self.taken.values() if (each.action.round, each.action.step) == place]
        for each in (*filter(None, [self._latest.get(place)]), *taken):
            each.decide(done=event.done)

    def end_run(self, event: WorkerRunEnded) -> None:
        """Note the actions of a run that the code of a worker started, of which only the ends are known."""
        worker, level = self.at((event.run_id, event.round, event.step, event.attempt))
        for action in event.actions:
            inner = Level(action.run_id, action.round, action.step, "")
            found = Execution(action, path=(worker, action.worker), levels=(level, inner))
            bare = Outcome(round=action.round, step=action.step, worker=action.worker, status="ok")
            found.outcome = replace(bare, text=action.output, action=action.end)
            if action.end != "done":
                problem = Problem("worker_failed", action.output)
                found.outcome = replace(bare, status="failed", problem=problem, action=action.end)
            self.begun.append((event.nested, found))

    def at(self, parent: Parent) -> tuple[str, Level]:
        """Return the worker of a call, and its step."""
        return self._called.get(parent[1:], ("", Level(*parent[:3], "")))

    @classmethod
    def of_family(cls, runs: Mapping[str, tuple[Self, Parent]]) -> list[Execution]:
        """Return copies of the actions of runs that are nested in one another, with all steps around them.

        An action without a recorded end counts as unknown: the process may have died during the call. A step
        may also take, or wait for a decision on, an action of a run that is not in `runs`, as in a replay or
        in the turn after tool calls; then its run counts the action, too.
        """

        def around(parent: Parent) -> tuple[Path, tuple[Level, ...]]:
            if parent[0] not in runs:
                return (), ()
            outer, above = runs[parent[0]]
            (path, levels), (worker, level) = around(above), outer.at(parent)
            return (*path, worker), (*levels, level)

        begun, taken = list[Execution](), list[Execution]()
        for actions, parent in runs.values():
            place = around(parent)
            begun += [each.inside(*place) for run_id, each in actions.begun if run_id not in runs]
            taken += [each.inside(*place) for at, each in actions.taken.items() if at[0] not in runs]
        return [*begun, *taken]
