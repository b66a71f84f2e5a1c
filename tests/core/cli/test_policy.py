"""`podium policy test`: what the policy does with flows."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Podium = Callable[..., Result]
CONFIG = """
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
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "podium.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.parametrize(
    ("workers", "labels", "found", "why"),
    [
        (["web", "writer", "mailer"], [], "refused", "→ step 2 (mailer: write-tools)"),
        (["writer", "mailer"], [], "allowed", ""),
        (["mailer"], ["secret"], "refused", "only reaches 'writer'"),
        (["mailer"], ["untrusted"], "refused", "the query"),
    ],
)
def test_a_flow(podium: Podium, workers: list[str], labels: list[str], found: str, why: str) -> None:
    for expect in ("refused", "allowed"):
        Path("flows.toml").write_text(FLOW.format(workers=workers, labels=labels, expect=expect))
        tested = podium("policy", "test", "flows.toml", "--json")
        (flow,) = json.loads(tested.stdout)["flows"]
        assert (flow["expect"], flow["found"], flow["ok"]) == (expect, found, found == expect)
        assert why in flow["why"]
        assert tested.exit_code == (0 if found == expect else 1)
    shown = podium("policy", "test", "flows.toml", env={"COLUMNS": "160"})
    assert ("✓" if found == "allowed" else "✗") + "  " + " → ".join(workers) in shown.stdout


WRONG_FLOWS = [
    (FLOW.format(workers=["Web"], labels=[], expect="refused"), "did you mean 'web'?"),
    (FLOW.format(workers=["web"], labels=["secert"], expect="refused"), "did you mean 'secret'?"),
    (FLOW.format(workers=["web"], labels=[], expect="denied"), "'expect' in [flow.0] is 'denied'"),
    ("[[flows]]\n", "flows.toml:1: unknown table [flows]: did you mean 'flow'?"),
    ("", "'flow'"),
    ("[[flow", "flows.toml:1: invalid TOML"),
]


def test_a_file_that_tests_nothing(podium: Podium, config: Path) -> None:
    for text, told in WRONG_FLOWS:
        Path("flows.toml").write_text(text)
        tested = podium("policy", "test", "flows.toml")
        assert (tested.exit_code, told in tested.stderr) == (2, True), tested.stderr
    config.write_text(CONFIG + "denied = ['Mailer']\n")
    Path("flows.toml").write_text(FLOW.format(workers=["web"], labels=[], expect="refused"))
    tested = podium("policy", "test", "flows.toml")
    assert (tested.exit_code, "did you mean 'mailer'?" in tested.stderr) == (2, True)
