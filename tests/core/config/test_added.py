"""Tables and planners of `podium.toml` that belong to other packages."""

import json
import sys
from pathlib import Path

import pytest
from installing import Install, installer, known_add_ons
from typer.testing import CliRunner

from podium import Conductor
from podium.cli.root import app
from podium.config import load as loading, load_config
from podium.config.load import find_journal
from podium.errors import ConfigError
from podium.planners import CachedPlanner

TOY = """
from podium.config import Section

class Level(Section):
    height: int

class Toy(Section):
    blocks: int
    levels: list[Level] = []

number = 3
"""
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

    def workers(self, folder):
        return (Gather("tray"),)

class Unsure(FixedPlanner):
    def warnings(self, workers):
        return [f"{worker.card.name} is not known: roll again" for worker in workers]

class Loaded(AddedPlanner):
    def build(self, folder, workers):
        return Unsure(Plan((Step(0, "2 + 3"),)))

number = 3
"""
POOL = '[workers.calculator]\ntype = "calculator"\n[journal]\noff = true\n'
RULE = '[planner]\ntype = "rule"\n'


@pytest.fixture(autouse=True)
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package with tables and one with planners, and know others, of which the router is absent."""
    install = installer(tmp_path / "site", monkeypatch)
    install("podium-toy", "[podium.config]\ntoy = podium_toy:Toy\nodd = podium_toy:number\n", TOY)
    planners = ("dice = podium_dice:Dice", "loaded = podium_dice:Loaded", "odd = podium_dice:number")
    install("podium-dice", "\n".join(("[podium.planners]", *planners)), DICE)
    known_add_ons(monkeypatch)
    installed = loading.announced
    monkeypatch.setattr(
        loading, "announced", lambda group: {k: v for k, v in installed(group).items() if k != "router"}
    )
    return install


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "podium.toml"
    path.write_text(f"{text}\n{POOL}")
    return path


def dice(tmp_path: Path, planner: str) -> Path:
    return written(tmp_path, f"[planner]\n{planner}")


def test_an_installed_package_is_handed_its_table(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, f"[toy]\nblocks = 3\nlevels = [{{ height = 2 }}]\n{RULE}"))
    table = config.table("toy", sys.modules["podium_toy"].Toy)
    assert (table.blocks, table.levels[0].height) == (3, 2)


def test_a_planner_of_another_package_plans(tmp_path: Path) -> None:
    """It knows the folder and the workers of the file, and brings a worker of its own; `check` shows it."""
    path = dice(tmp_path, 'type = "dice"\nsides = 6')
    result = load_config(path).conductor().run_sync("What is 2 + 3?")
    assert [outcome.worker for outcome in result.outcomes] == ["calculator", "tray"]
    assert "5" in result.answer
    assert result.planner.name == f"dice of {tmp_path.name}"
    done = CliRunner().invoke(app, ["check", "--config", str(path)])
    assert done.exit_code == 0, done.stdout
    assert f"dice of {tmp_path.name}" in " ".join(done.stdout.split())


def test_its_warnings_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = dice(tmp_path, 'type = "loaded"')
    told = "calculator is not known: roll again"
    result = CliRunner().invoke(app, ["run", "What is 2 + 3?", "--config", str(path)])
    assert (result.exit_code, f"podium: warning: {told}" in result.stderr) == (0, True)
    result = CliRunner().invoke(app, ["check", "--json", "--config", str(path)])
    parts = {part["role"]: part for part in json.loads(result.stdout)["parts"]}
    assert (parts["planner"]["warnings"], parts["worker"]["warnings"]) == ([told], [])
    caplog.clear()
    conductor = load_config(path).conductor()
    assert conductor.warnings == (told,)
    assert [record.getMessage() for record in caplog.records] == [f"planner 'fixed': {told}"]
    assert Conductor(CachedPlanner(conductor.planner), conductor.pool).warnings == (told,)


HOSTED = '[hosted]\nendpoint = "fugu"\n[endpoints.fugu]\nbase_url = "https://x.example/v1"\n'


WRONG = {
    "[toy]\nblocks = 3\n[[toy.levels]]\nheight = 1\nhigh = 1\n": "unknown key 'high' in [toy.levels.0]: did",
    "[odd]\n": "'podium_toy:number' of the table [odd] is not a pydantic model",
    '[planner]\ntype = "dice"\n': "podium.toml:1: [planner] lacks 'sides': add it",
    '[planner]\ntype = "dice"\nsides = 1\n': "podium.toml:3: sides is 1: a die has at least 2",
    '[planner]\ntype = "nobody"\n': "'nobody': write one of 'chat', 'rule', 'fixed'",
    '[planner]\ntype = "router"\n': "podium.toml:2: a planner of type 'router' needs",
    f'[planner]\ntype = "dice"\nsides = 6\n{HOSTED}': "[planner] has no effect with [hosted]",
}


def test_what_is_wrong_is_told_by_line(tmp_path: Path) -> None:
    for text, told in WRONG.items():
        with pytest.raises(ConfigError) as raised:
            load_config(written(tmp_path, text if "[planner]" in text else text + RULE)).conductor()
        assert told in str(raised.value)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """In core's tables and in others', in the order of the file, also for commands that read the journal."""
    path = written(tmp_path, f"[limits]\nrounds = 0\n[toy]\n[limit]\n[theatre]\n{RULE}")
    for read in (load_config, find_journal):
        with pytest.raises(ConfigError) as raised:
            read(path)
        first, second, third, fourth = str(raised.value).splitlines()
        assert "'rounds' in [limits] is 0" in first
        assert "[toy] lacks 'blocks'" in second
        assert "unknown table [limit]: did you mean 'limits'?" in third
        assert "podium.toml:5: the table [theatre] needs podium-theatre, which is not installed" in fourth
        assert "'podium-theatre'`" in fourth
