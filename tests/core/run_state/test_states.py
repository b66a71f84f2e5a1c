"""The state of recorded runs after each event: `states.json` holds the viewer's `fold.js` to it, too."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from core.journal.recorded_before.cases import RUNS, load
from core.run_state.test_resume import recorded

from podium.journal import SqlJournal
from podium.run_state import RunState
from podium.run_state.round_state import RoundState
from podium.types import RunEnded, RunStopped

STATES = Path(__file__).with_name("states.json")
"""For each run of `recorded_before`, what `told` returns after each event."""


def told(state: RunState) -> list[Any]:
    """Return status, answer, number of calls and the rounds."""
    status, answer = "running", ""
    if isinstance(state.end, RunEnded):
        status, answer = state.end.result.status, state.end.result.answer
    elif isinstance(state.end, RunStopped):
        status = "stopped"
    elif any(asked.step is None for asked in state.waiting):
        status = "waiting"
    return [status, answer, [_round(state, each) for _, each in sorted(state.rounds.items())]]


def _round(state: RunState, current: RoundState) -> list[Any]:
    """Return why, planner, the planner calls that ended, what waits for approval, and the steps."""
    ended = [each for each in current.planned if getattr(each.proposal.problem, "code", "") != "unknown"]
    waits = [asked.step for asked in state.waiting if asked.round == current.number]
    planner = current.ready and current.ready.planner
    return [current.reason, planner, len(ended), waits, dict(_steps(current))]


def _steps(current: RoundState) -> Iterator[tuple[str, list[Any]]]:
    """Yield the steps that do not wait, each with its status, its worker and the number of its calls."""
    for index, step in sorted(current.steps.items()):
        if step.status != "waiting":
            outcome = step.outcome if step.since is None else None
            worker = step.calls[-1].start.worker if outcome is None else outcome.worker
            yield str(index), [step.status, worker, len(step.calls)]


async def read(path: Path) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {}
    async with SqlJournal(load(path)) as journal:
        for run_id in RUNS:
            state, found[run_id] = RunState(), []
            for event in await recorded(journal, run_id):
                state.take(event)
                found[run_id].append(told(state))
    return found


@pytest.mark.anyio
async def test_recorded_runs_after_each_event(tmp_path: Path) -> None:
    assert await read(tmp_path / "journal.db") == json.loads(STATES.read_text("utf-8"))
