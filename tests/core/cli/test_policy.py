"""`podium policy test`: what the policy does with flows, and with the plans of recorded runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from podium.aio import run_sync
from podium.conductor import Conductor
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.types import Plan, Step
from podium.workers import ScriptedWorker

Podium = Callable[..., Result]
CONFIG = """
[journal]
path = "runs.db"
[workers.web]
type = "gather"
labels = ["untrusted"]
[workers.writer]
type = "gather"
[workers.mailer]
type = "calculator"
labels = ["write-tools"]
[planner]
type = "rule"
[policy]
labels = ["secret"]
rules = [{label = "untrusted", never = ["write-tools"]}, {label = "secret", only = ["writer"]}]
"""
FLOW = '[[flow]]\nworkers = {workers}\nlabels = {labels}\nexpect = "{expect}"\n'


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a policy."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "podium.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize(
    ("workers", "labels", "found", "why"),
    [
        (["web", "mailer"], [], "refused", "step 0 (web: untrusted) → step 1 (mailer: write-tools)"),
        (["web", "writer", "mailer"], [], "refused", "→ step 2 (mailer: write-tools)"),
        (["writer", "mailer"], [], "allowed", ""),
        (["mailer"], ["secret"], "refused", "only reaches 'writer'"),
        (["writer"], ["secret"], "allowed", ""),
        (["mailer"], ["untrusted"], "refused", "the query"),
    ],
)
@pytest.mark.parametrize("expect", ["refused", "allowed"])
def test_a_flow(
    podium: Podium, workers: list[str], labels: list[str], found: str, why: str, expect: str
) -> None:
    """The exit code says whether the policy does what the file expects; the reason is shown."""
    Path("flows.toml").write_text(FLOW.format(workers=workers, labels=labels, expect=expect))
    tested = podium("policy", "test", "flows.toml", "--json")
    (flow,) = json.loads(tested.stdout)["flows"]
    assert (flow["expect"], flow["found"], flow["ok"]) == (expect, found, found == expect)
    assert why in flow["why"]
    assert tested.exit_code == (0 if found == expect else 1)
    shown = podium("policy", "test", "flows.toml", env={"COLUMNS": "160"})
    assert ("✓" if found == expect else "✗") + "  " + " → ".join(workers) in shown.stdout
    assert shown.exit_code == tested.exit_code


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FLOW.format(workers=["Web"], labels=[], expect="refused"), "did you mean 'web'?"),
        (FLOW.format(workers=["web"], labels=["secert"], expect="refused"), "did you mean 'secret'?"),
        (FLOW.format(workers=[], labels=[], expect="refused"), "'workers' in [flow.0]"),
        (FLOW.format(workers=["web"], labels=[], expect="denied"), "'expect' in [flow.0] is 'denied'"),
        ("[[flows]]\n", "flows.toml:1: unknown table [flows]: did you mean 'flow'?"),
        ("", "'flow'"),
        ("[[flow", "flows.toml:1: invalid TOML"),
    ],
)
def test_a_file_that_tests_nothing(podium: Podium, text: str, told: str) -> None:
    """It is refused, with the line or the nearest name."""
    Path("flows.toml").write_text(text)
    tested = podium("policy", "test", "flows.toml")
    assert tested.exit_code == 2
    assert told in tested.stderr


def test_a_policy_that_is_wrong(podium: Podium, config: Path) -> None:
    """It is told before any flow."""
    Path("flows.toml").write_text(FLOW.format(workers=["web"], labels=[], expect="refused"))
    config.write_text(CONFIG + "denied = ['Mailer']\n")
    tested = podium("policy", "test", "flows.toml")
    assert tested.exit_code == 2
    assert "did you mean 'mailer'?" in tested.stderr


def test_recorded_runs(podium: Podium, config: Path) -> None:
    """Their plans must be allowed, too; one with a worker that is gone cannot be tested."""
    Path("flows.toml").write_text(FLOW.format(workers=["writer"], labels=["secret"], expect="allowed"))
    journal = SqlJournal(Path("runs.db"))
    pool = [ScriptedWorker(name, "x") for name in ("mailer", "web", "old")]
    for run_id, numbers in {"bad": (1, 0), "good": (0, 1), "gone": (2,)}.items():
        steps = (Step(number, "x", (index - 1,) if index else ()) for index, number in enumerate(numbers))
        conductor = Conductor(FixedPlanner(Plan(tuple(steps))), pool, journal=journal)
        run_sync(lambda: conductor.run("Why?", run_id=run_id))  # noqa: B023 - called at once
    tested = podium("policy", "test", "flows.toml", "--since", "1h", "--json")
    found = {flow["flow"]: (flow["found"], flow["why"]) for flow in json.loads(tested.stdout)["flows"]}
    assert found["writer"][0] == found["run good, round 1"][0] == "allowed"
    assert found["run bad, round 1"][0] == "refused"
    assert "(web: untrusted) → step 1 (mailer: write-tools)" in found["run bad, round 1"][1]
    assert found["run gone, round 1"] == ("unknown", "the file has no worker old")
    assert tested.exit_code == 1
    config.write_text(CONFIG.replace('path = "runs.db"', "off = true"))
    assert podium("policy", "test", "flows.toml", "--since", "1h").exit_code == 2
