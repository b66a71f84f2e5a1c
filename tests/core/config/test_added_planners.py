"""Planners of `podium.toml` that belong to other packages."""

import json
import sys
from pathlib import Path

import pytest
from installing import Install, installer
from typer.testing import CliRunner

from podium import Conductor
from podium.cli import app
from podium.config import find_journal, load as loading, load_config
from podium.errors import ConfigError
from podium.planners import CachedPlanner

DICE = """
from podium import Plan, Step
from podium.config import AddedPlanner
from podium.errors import ConfigError
from podium.planners import FixedPlanner
from podium.workers.simple import Gather

class Dice(AddedPlanner):
    sides: int

    def build(self, folder, workers):
        if self.sides < 2:
            raise ConfigError(f"sides is {self.sides}: a die has at least 2")
        plan = Plan((Step(0, "2 + 3"), Step(len(workers), "Join.", (0,))))
        planner = FixedPlanner(plan)
        planner.name = f"dice of {folder.name}"
        return planner

    def workers(self):
        return (Gather("tray"),)

class Unsure(FixedPlanner):
    def warnings(self, workers):
        return [f"{worker.card.name} is not known: roll again" for worker in workers]

class Loaded(AddedPlanner):
    def build(self, folder, workers):
        return Unsure(Plan((Step(0, "2 + 3"),)))

number = 3
"""
POOL = """
[workers.calculator]
type = "calculator"

[journal]
off = true
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution of one module."""
    return installer(tmp_path / "site", monkeypatch)


@pytest.fixture
def dice(install: Install) -> None:
    """Install a package with a planner."""
    planners = "[podium.planners]\ndice = podium_dice:Dice\nloaded = podium_dice:Loaded\n"
    install("podium-dice", planners, DICE)


def written(tmp_path: Path, planner: str) -> Path:
    """Write a config with this planner."""
    path = tmp_path / "podium.toml"
    path.write_text(f"[planner]\n{planner}\n{POOL}")
    return path


def test_a_planner_of_another_package_plans(tmp_path: Path, dice: None) -> None:
    """It knows the folder and the workers of the file, and brings a worker of its own."""
    config = load_config(written(tmp_path, 'type = "dice"\nsides = 6'))
    result = config.conductor().run_sync("What is 2 + 3?")
    assert [outcome.worker for outcome in result.outcomes] == ["calculator", "tray"]
    assert "5" in result.answer
    assert result.planner is not None
    assert result.planner.name == f"dice of {tmp_path.name}"


def test_check_reports_it(tmp_path: Path, dice: None) -> None:
    """With the workers that it brings."""
    path = written(tmp_path, 'type = "dice"\nsides = 6')
    result = CliRunner().invoke(app, ["check", "--config", str(path)])
    assert result.exit_code == 0, result.stdout
    assert f"dice of {tmp_path.name}" in " ".join(result.stdout.split())


def test_its_warnings_are_told(tmp_path: Path, dice: None, caplog: pytest.LogCaptureFixture) -> None:
    """By each command that plans, and in the log when the conductor is made; no command fails."""
    path = written(tmp_path, 'type = "loaded"')
    told = "calculator is not known: roll again"
    for words in (("plan", "What is 2 + 3?"), ("run", "What is 2 + 3?")):
        result = CliRunner().invoke(app, [*words, "--config", str(path)])
        assert (result.exit_code, f"podium: warning: {told}" in result.stderr) == (0, True)
    result = CliRunner().invoke(app, ["check", "--config", str(path)])
    assert (result.exit_code, f"! planner fixed: {told}" in result.stdout) == (0, True)
    result = CliRunner().invoke(app, ["check", "--json", "--config", str(path)])
    parts = {part["role"]: part for part in json.loads(result.stdout)["parts"]}
    assert (parts["planner"]["warnings"], parts["worker"]["warnings"]) == ([told], [])
    caplog.clear()
    conductor = load_config(path).conductor()
    assert isinstance(conductor, Conductor)
    assert conductor.warnings == (told,)
    assert [record.getMessage() for record in caplog.records] == [f"planner 'fixed': {told}"]
    assert Conductor(CachedPlanner(conductor.planner), conductor.pool).warnings == (told,)


@pytest.mark.parametrize(
    ("planner", "told"),
    [
        ('type = "dice"', "podium.toml:1: [planner] lacks 'sides': add it"),
        (
            'type = "dice"\nsides = "six"',
            "podium.toml:3: 'sides' in [planner] is 'six': write a whole number",
        ),
        (
            'type = "dice"\nsides = 6\nside = 1',
            "podium.toml:4: unknown key 'side' in [planner]: did you mean",
        ),
        ('type = "nobody"', "'type' in [planner] is 'nobody': write one of 'chat', 'rule', 'fixed'"),
        ('type = "router"', "podium.toml:2: a planner of type 'router' needs"),
        ("type = 3", "'type' in [planner] is 3"),
    ],
)
def test_what_is_wrong_is_told_by_line(
    tmp_path: Path, dice: None, monkeypatch: pytest.MonkeyPatch, planner: str, told: str
) -> None:
    """In the words of core's own planners; a known type says how to install its package."""
    installed = loading.announced
    monkeypatch.setattr(
        loading, "announced", lambda group: {k: v for k, v in installed(group).items() if k != "router"}
    )
    with pytest.raises(ConfigError) as raised:
        load_config(written(tmp_path, planner))
    assert told in str(raised.value)


def test_an_error_of_the_planner_has_the_line_of_its_key(tmp_path: Path, dice: None) -> None:
    """As in core's own tables."""
    config = load_config(written(tmp_path, 'type = "dice"\nsides = 1'))
    with pytest.raises(ConfigError, match=r"podium\.toml:3: sides is 1"):
        config.conductor()


def test_a_package_is_not_imported_for_another_planner(tmp_path: Path, dice: None) -> None:
    """Whatever is installed."""
    load_config(written(tmp_path, 'type = "rule"'))
    assert "podium_dice" not in sys.modules


def test_a_planner_needs_no_file_for_commands_that_read_the_journal(tmp_path: Path, dice: None) -> None:
    """Its table is checked; it is not built."""
    path = written(tmp_path, 'type = "dice"\nsides = 1')
    path.write_text(path.read_text().replace("off = true", 'path = "runs.db"'))
    assert find_journal(path) is not None


def test_an_entry_point_that_is_no_planner_is_told(tmp_path: Path, install: Install) -> None:
    """By name."""
    install("podium-dice", "[podium.planners]\ndice = podium_dice:number\n", DICE)
    with pytest.raises(
        ConfigError, match="'podium_dice:number' of the planner 'dice' is not an AddedPlanner"
    ):
        load_config(written(tmp_path, 'type = "dice"'))


def test_a_hosted_conductor_has_no_planner_of_another_package(tmp_path: Path, dice: None) -> None:
    """As with the planners of core."""
    path = tmp_path / "podium.toml"
    hosted = '[hosted]\nendpoint = "fugu"\n[endpoints.fugu]\nbase_url = "https://x.example/v1"\n'
    path.write_text(f'[planner]\ntype = "dice"\nsides = 6\n{hosted}')
    with pytest.raises(ConfigError, match=r"\[planner\] has no effect with \[hosted\]"):
        load_config(path)
