"""The notes below the table of a run: failures, skipped steps and their causes, reasons of planners."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from podium.cli.live.live_rows import RoundRow, RunRow, StepRow
from podium.cli.live.live_state import LiveState
from podium.config.toml_names import in_toml
from podium.types.explain import ACTION_ENDS


class Note(NamedTuple):
    """One line below the table."""

    text: str
    style: str


def run_notes(state: LiveState, shown: Callable[[str], str]) -> list[Note]:
    """Return the notes on a run and on its nested runs, each on one line.

    Args:
        state: the state of the run.
        shown: makes foreign text safe for a terminal.
    """
    found = () if state.root is None else _of_run(state.root, "")
    return [Note(" ".join(in_toml(shown(note.text)).split()), note.style) for note in found]


def _of_run(run: RunRow, above: str) -> Iterator[Note]:
    for number, current in run.rounds.items():
        place = f"{above}round {number}, " if len(run.rounds) > 1 else above
        yield from _of_round(current, place)
    if run.stopped is not None:
        yield Note(f"{above}stopped: {run.stopped.message}", "yellow")


def _of_round(current: RoundRow, place: str) -> Iterator[Note]:
    if current.why:
        yield Note(f"{place}because {current.why}", "dim")
    if current.is_planned and current.plan_why:
        yield Note(f"{place}plan: {current.plan_why}", "dim")
    for reason in current.rejected:
        yield Note(f"{place}{reason}", "yellow")
    skipped: dict[str, list[int]] = {}
    for index, step in sorted(current.steps.items()):
        yield from _of_step(step, f"{place}step {index}")
        for nested in step.runs:
            yield from _of_run(nested, f"{place}step {index}, ")
        if step.status == "skipped":
            skipped.setdefault(_cause(current, index), []).append(index)
    for cause, indexes in skipped.items():
        steps = f"step{'' if len(indexes) == 1 else 's'} {', '.join(map(str, indexes))}"
        yield Note(f"{place}{steps} skipped: {cause}", "yellow")


def _of_step(step: StepRow, name: str) -> Iterator[Note]:
    if step.outcome is not None and step.outcome.action is not None:
        end = ACTION_ENDS[step.outcome.action]
        yield Note(f"{name} is an action (!): {end}", "dim" if step.outcome.action == "done" else "yellow")
    for call in step.failed:
        told = "" if call.problem is None else call.problem.message
        paid = ", perhaps paid" if call.maybe_paid else ""
        yield Note(f"{name}, call {call.attempt} of {call.worker}: {told}{paid}", "yellow")
    problem = None if step.outcome is None else step.outcome.problem
    if problem is not None and step.status != "skipped":
        how = "" if step.status == "ok" else f" {step.status}"
        yield Note(f"{name}{how}: {problem.message}", "red" if step.status == "failed" else "yellow")


def _cause(current: RoundRow, skipped: int) -> str:
    """Return the failed steps because of which a step was skipped, or the step's own problem."""
    roots, todo, seen = set[int](), [skipped], set[int]()
    while todo:
        index = todo.pop()
        if index in seen or index not in current.steps:
            continue
        seen.add(index)
        step = current.steps[index]
        if step.status in ("failed", "cancelled"):
            roots.add(index)
        elif step.status == "skipped":
            todo += [each for each in step.sees if isinstance(each, int)]
    outcome = current.steps[skipped].outcome
    problem = None if outcome is None else outcome.problem
    if problem is not None and (problem.code != "dependency" or not roots):
        return problem.message
    return "; ".join(f"step {index} {_failure(current.steps[index])}" for index in sorted(roots))


def _failure(step: StepRow) -> str:
    how = "was cancelled" if step.status == "cancelled" else "failed"
    problem = None if step.outcome is None else step.outcome.problem
    return how if problem is None else f"{how}: {problem.message}"
