"""`podium audit costs`: files, options, output and exit codes."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from evals.audit import exports
from evals.audit.exports import Made, lines
from typer.testing import Result

from podium import Conductor, ScriptedWorker
from podium.journal import SqlJournal
from podium.planners import FixedPlanner

Podium = Callable[..., Result]


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rows = [exports.langsmith(Made(id="c1")), exports.langsmith(Made(id="c2", at=2.0))]
    return lines(tmp_path / "export.jsonl", rows)


def test_a_report_on_the_terminal(podium: Podium, export: Path) -> None:
    result = podium("audit", "costs", str(export))
    assert result.exit_code == 0, result.stderr
    rows = result.stdout.splitlines()
    assert max(map(len, rows)) <= 80
    told = " ".join(result.stdout.split())
    assert "queries 1 model calls 2" in told
    assert "Same prompt repeated in one query 1 1 $0.0002" in told
    assert "genai-prices" in told
    assert result.stderr == ""


def test_a_report_as_json(podium: Podium, export: Path) -> None:
    """With all figures, and nothing else."""
    result = podium("audit", "costs", "export.jsonl", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert (told["queries"], told["total"]["calls"], told["findings"][0]["kind"]) == (1, 2, "repeat")
    assert [each.name for each in Path().iterdir()] == ["export.jsonl"]


def test_rows_that_cannot_be_read(podium: Podium, export: Path) -> None:
    """The report is printed, and the exit code is that of a partial answer."""
    export.write_text("{\n\x1b[31mred\n" + export.read_text())
    result = podium("audit", "costs", "export.jsonl")
    assert result.exit_code == 3
    assert "podium: export.jsonl, line 1: no JSON: " in result.stderr
    assert "unreadable rows, which are missing in the report: 2" in result.stderr
    assert "\x1b" not in result.stdout + result.stderr


def test_prices_of_your_own(podium: Podium, export: Path) -> None:
    """They take precedence; cached input may have a price."""
    entry = '[[price]]\nworker = "gpt-4o-mini"\nas_of = 2026-01-01\nsource = "contract"\n'
    Path("prices.toml").write_text(entry + "input = 1.0\noutput = 2.0\ncached_input = 0.5\n")
    told = json.loads(podium("audit", "costs", "export.jsonl", "--prices", "prices.toml", "--json").stdout)
    assert told["total"]["cost"] == pytest.approx(2 * (600 * 1.0 + 400 * 0.5 + 100 * 2.0) / 1e6)
    assert told["prices"].startswith("your table, then genai-prices")


def test_turns(podium: Podium, export: Path) -> None:
    agent = exports.otlp(Made(id="a", seconds=9.0), {"gen_ai.operation.name": "invoke_agent"})
    calls = [exports.current(Made(id=f"c{n}", parent="a", at=2.0 * n)) for n in range(3)]
    lines(export, [agent, *calls])
    for limit, found in (("2", True), ("3", False)):
        told = json.loads(podium("audit", "costs", "export.jsonl", "--turns", limit, "--json").stdout)
        assert any(each["kind"] == "many_turns" for each in told["findings"]) is found


@pytest.mark.long
def test_journals(podium: Podium, export: Path, postgres_url: str) -> None:
    """By path, by URL, and the configured one by default; beside files of exports."""
    told = podium("audit", "costs")
    assert (told.exit_code, "no model call was found" in told.stderr) == (2, True)
    for place in (Path("runs.db"), None, postgres_url):
        journal = SqlJournal(place)
        planner = FixedPlanner('{"worker": 0, "subtask": "Answer.", "access": []}')
        Conductor(planner, [ScriptedWorker("w", "42")], journal=journal).run_sync("How many?")
    for arguments in (
        (),
        ("runs.db",),
        (f"sqlite:///{Path('runs.db').resolve()}",),
        ("sqlite:///runs.db",),
        (postgres_url,),
    ):
        result = podium("audit", "costs", *arguments, "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["total"]["calls"] == 1
    both = json.loads(podium("audit", "costs", "runs.db", "export.jsonl", "--json").stdout)
    assert (both["queries"], both["total"]["calls"]) == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere.jsonl",), "nowhere.jsonl cannot be read: No such file"),
        (("other.db",), "other.db is an SQLite file, but not a journal of Podium"),
        (("sqlite:///nowhere.db",), "nowhere.db cannot be read"),
        (("export.jsonl", "export.jsonl"), "export.jsonl is named twice"),
        (("export.jsonl", "--prices", "no.toml"), "no.toml cannot be read"),
        (("export.jsonl", "--prices", "export.jsonl"), "export.jsonl is not a table of prices"),
    ],
)
def test_wrong_arguments(podium: Podium, export: Path, arguments: tuple[str, ...], told: str) -> None:
    """Each is told in a line; nothing is written."""
    with closing(sqlite3.connect("other.db")) as database:
        database.execute("CREATE TABLE mine (x TEXT)")
    before = {each.name: each.read_bytes() for each in Path().iterdir()}
    result = podium("audit", "costs", *arguments)
    assert result.exit_code == 2, result.stderr
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert {each.name: each.read_bytes() for each in Path().iterdir()} == before


@pytest.mark.long
def test_pipes(spawn: Callable[..., subprocess.Popen[bytes]], export: Path) -> None:
    """An export may come from another command, as in `zcat … | podium audit costs /dev/stdin`."""
    process = spawn("audit", "costs", "/dev/stdin", "--json")
    told, _ = process.communicate(export.read_bytes(), 30)
    assert json.loads(told)["total"]["calls"] == 2
