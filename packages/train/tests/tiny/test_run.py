"""A whole run from nothing, and its report; these tests need torch and run by `make test-trainers`."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_conductor.model import TinyConductor, TinyConfig
from tiny_conductor.report import Report
from tiny_conductor.run import Held, Settings, run
from tiny_conductor.training import Grpo, WarmUp

from podium_train.guards import GuardSettings

pytestmark = pytest.mark.timeout(300)
SETTINGS = Settings(
    model=TinyConfig(width=32, heads=2, feed_forward=48, layers=2),
    warm_up=WarmUp(steps=64, prompts=16, texts=8, lr=1e-2),
    grpo=Grpo(updates=4, prompts=4, texts=8),
    validate_every=2,
    validation=Held("validation", "validation", episodes=40, seed=11),
)
HELD = (Held("mixes", "mixes", episodes=60), Held("three workers", "mixes", size=3, episodes=60))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("run")
    told: list[str] = []
    result = run(SETTINGS, seed=1, folder=folder, told=told.append, held_out=HELD)
    assert not result.stopped
    assert [line.split(":")[0] for line in told] == ["warm start", "update 2", "update 4"]
    return folder


def test_files_of_a_run(folder: Path) -> None:
    """Each update has a line, validation every second one, and the best conductor can be loaded."""
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [bool(line["held_out"]) for line in lines] == [False, True, False, True]
    assert all(line["texts"] == 32 for line in lines)
    assert TinyConductor.load(folder / "best").model.config == replace(SETTINGS.model)


def test_report(folder: Path) -> None:
    """It has a row for each set of episodes, with the baselines on the same episodes."""
    result = json.loads((folder / "result.json").read_text())
    report = Report([result, {**result, "seed": 2}])
    rows = report.text().splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:4]] == ["mixes", "three workers"]
    gain, low, high = report.over_rule("mixes")
    assert low < gain < high
    held = result["held_out"]["mixes"]
    rule = sum(held["baselines"]["fair rule"]) / 60
    assert abs(gain - (report.mean("mixes") - rule)) < 1e-9
    assert held["oracle_entropy"] > 1


def test_guards_stop_a_run_that_collapses(tmp_path: Path) -> None:
    """A learning rate that is far too high destroys the form of plans; the reason is in the result."""
    settings = replace(
        SETTINGS,
        grpo=Grpo(updates=60, prompts=4, texts=8, lr=0.1),
        guards=GuardSettings(patience=3, warm_up=1),
    )
    told: list[str] = []
    result = run(settings, seed=1, folder=tmp_path, told=told.append, held_out=HELD[:1])
    assert "stopped after" in result.stopped
    assert told[-1] == result.stopped
    assert len((tmp_path / "steps.jsonl").read_text().splitlines()) < 60


def test_finished_seeds_are_not_trained_again(folder: Path, tmp_path: Path) -> None:
    """The command reports them, fails below the wanted result, and refuses results of other settings."""
    result = json.loads((folder / "result.json").read_text())
    kept = tmp_path / "seed-1" / "result.json"
    kept.parent.mkdir()

    def command(fingerprint: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept.write_text(json.dumps({**result, "fingerprint": fingerprint}))
        words = [sys.executable, "-m", "tiny_conductor", "--seeds", "1", "--out", str(tmp_path), *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    done = command(Settings().fingerprint)
    assert done.returncode == 0
    assert "| mixes |" in done.stdout
    assert "| mixes |" in (tmp_path / "report.md").read_text()
    assert command(Settings().fingerprint, "--at-least", "1").returncode == 1
    refused = command(SETTINGS.fingerprint)
    assert refused.returncode == 2
    assert "name another --out" in refused.stderr
