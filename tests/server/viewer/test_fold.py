"""The viewer's fold of events says the same as the fold of core, after each event of recorded runs."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from core.journal.recorded_before.cases import RUNS, load
from core.run_state.test_states import STATES, told

import podium_server
from podium.conductor import Conductor
from podium.journal import SqlJournal
from podium.planners import RulePlanner
from podium.policy.policy import Policy
from podium.run_state import RunState
from podium.types import Plan
from podium.workers import StepInput
from podium.workers.simple import FunctionWorker

FOLD = Path(podium_server.__file__).parent / "viewer" / "static" / "fold.js"
SCRIPT = """
const { newRun, fold, stepsOf, waiting } = await import("data:text/javascript," + encodeURIComponent(%s));
const { stdin, stdout } = process;
let text = "";
for await (const piece of stdin) text += piece;
const stepOf = (step) => [step.index, [step.status, step.worker, step.attempts.length]];
const roundOf = (round) => [
  round.why, round.plan ? round.planner : null, round.proposals.length,
  [...(round.approval?.state === "asked" ? [null] : []), ...waiting(round).map((step) => step.index)],
  Object.fromEntries(stepsOf(round).filter((step) => step.status !== "pending").map(stepOf)),
];
const states = {};
for (const [id, events] of Object.entries(JSON.parse(text))) {
  const run = newRun(id);
  states[id] = events.map((event) => {
    fold(run, event);
    return structuredClone([run.status, run.answer, run.rounds.map(roundOf)]);
  });
}
stdout.write(JSON.stringify(states));
"""


async def _events(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the events of the recorded runs, as the server sends them."""
    runs = {}
    async with SqlJournal(load(path)) as journal:
        for run_id in RUNS:
            entries = await journal.read(run_id)
            runs[run_id] = [{"number": e.number, "recorded": e.at, **e.event.to_json()} for e in entries]
    return runs


def folded(runs: dict[str, list[dict[str, Any]]]) -> Any:
    """Return the states of runs after each event, as the viewer folds them."""
    if (node := shutil.which("node")) is None:
        pytest.skip("this test needs Node.js")
    script = SCRIPT % json.dumps(FOLD.read_text("utf-8"))
    command = [node, "--input-type=module", "--eval", script]
    done = subprocess.run(command, input=json.dumps(runs), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_recorded_runs_after_each_event(tmp_path: Path) -> None:
    """The fold of core is held to the same states."""
    runs = anyio.run(_events, tmp_path / "journal.db")
    assert folded(runs) == json.loads(STATES.read_text("utf-8"))


WORKFLOW = {
    "schema": 1,
    "steps": [
        {
            "worker": 0,
            "subtask": "List.",
            "access": [],
            "returns": {"items": [{"name": "string", "parts": [{"part": "string"}]}]},
        },
        {
            "each": "{{0.items}}",
            "steps": [
                {"worker": 0, "subtask": "Read {{item.name}}.", "access": []},
                {"worker": 0, "subtask": "Check {{0}}.", "access": [0], "each": 2},
            ],
            "access": [],
        },
        {
            "steps": [
                {
                    "worker": 0,
                    "subtask": "Turn {{previous.note}}.",
                    "access": ["previous"],
                    "returns": {"done": "boolean", "note": "string"},
                }
            ],
            "until": {"ref": "{{0.done}}", "is": True},
            "most": 3,
            "access": [],
        },
        {
            "worker": 0,
            "subtask": "Never.",
            "access": [],
            "when": {"ref": "{{0.items.0.name}}", "is": "z"},
        },
        {"worker": 0, "subtask": "Sum {{2.note}}.", "access": [1, 2, 3]},
    ],
}
"""A map of blocks, a loop of two turns, and a step that is skipped."""


def work(asked: StepInput) -> str:
    """Do a step of `WORKFLOW`; the item `b` fails."""
    if asked.subtask.startswith("List"):
        return json.dumps({"items": [{"name": name, "parts": [{"part": name}]} for name in "abc"]})
    if asked.subtask.startswith("Turn"):
        return json.dumps({"done": "x" in asked.subtask, "note": "x"})
    if asked.subtask == "Read b.":
        raise ValueError("it cannot be read")
    return f"did {asked.subtask}"


def test_a_workflow_after_each_event(tmp_path: Path) -> None:
    """Executions inside of maps and blocks are steps too; a fan-out above a threshold waits."""

    async def run() -> tuple[list[dict[str, Any]], list[Any]]:
        policy = Policy(ask_above={"calls": 2}, ask="fan-outs", approve="later")
        worker, states, state = FunctionWorker(work), [], RunState()
        journal = SqlJournal(tmp_path / "journal.db")
        conductor = Conductor(RulePlanner(), [worker], policy=policy, journal=journal)
        async with conductor, journal:
            result = await conductor.run(Plan.from_json(WORKFLOW), run_id="r")
            while result.status == "waiting":
                await conductor.decide("r", approved=True)
                result = await conductor.resume("r")
            entries = await journal.read("r")
        assert result.status in ("ok", "partial")
        for entry in entries:
            state.take(entry.event)
            states.append(told(state))
        return [{"number": e.number, "recorded": e.at, **e.event.to_json()} for e in entries], states

    events, states = anyio.run(run)
    assert {"fan_out", "approval_asked"} <= {each["type"] for each in events}
    assert folded({"r": events})["r"] == json.loads(json.dumps(states))
