"""The viewer's fold of events says the same as the fold of core, after each event of recorded runs."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from core.journal.recorded_before.cases import RUNS, load
from core.run_state.test_states import STATES

import podium_server
from podium.journal import SqlJournal

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
    runs = {}
    async with SqlJournal(load(path)) as journal:
        for run_id in RUNS:
            entries = await journal.read(run_id)
            runs[run_id] = [{"number": e.number, "recorded": e.at, **e.event.to_json()} for e in entries]
    return runs


def folded(runs: dict[str, list[dict[str, Any]]]) -> Any:
    if (node := shutil.which("node")) is None:
        pytest.skip("this test needs Node.js")
    script = SCRIPT % json.dumps(FOLD.read_text("utf-8"))
    command = [node, "--input-type=module", "--eval", script]
    done = subprocess.run(command, input=json.dumps(runs), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_recorded_runs_after_each_event(tmp_path: Path) -> None:
    runs = anyio.run(_events, tmp_path / "journal.db")
    assert folded(runs) == json.loads(STATES.read_text("utf-8"))
