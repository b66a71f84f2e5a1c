"""`podium audit costs`: files, options, exit codes, and reports in which nothing of the export can act."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from evals.audit import exports
from evals.audit.exports import Made, lines
from typer.testing import Result

from podium import Conductor, ScriptedWorker
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium_evals.audit import audit

Podium = Callable[..., Result]


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for kind in ("state", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
    rows = [exports.langsmith(Made(id="c1")), exports.langsmith(Made(id="c2", at=2.0))]
    return lines(tmp_path / "export.jsonl", rows)


def test_a_report(podium: Podium, export: Path) -> None:
    """For people, in 80 columns; for programs, with all figures and nothing else."""
    result = podium("audit", "costs", str(export))
    assert (result.exit_code, result.stderr) == (0, "")
    assert max(map(len, result.stdout.splitlines())) <= 80
    told = " ".join(result.stdout.split())
    for part in ("queries 1 model calls 2", "Same prompt repeated in one query 1 1 $0.0002", "genai-prices"):
        assert part in told
    result = podium("audit", "costs", "export.jsonl", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert (found["queries"], found["total"]["calls"], found["findings"][0]["kind"]) == (1, 2, "repeat")
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
    places = ("runs.db", f"sqlite:///{Path('runs.db').resolve()}", "sqlite:///runs.db", postgres_url)
    for arguments in ([], *([place] for place in places)):
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
    assert (result.exit_code, told in result.stderr, "Traceback" in result.stderr) == (2, True, False)
    assert {each.name: each.read_bytes() for each in Path().iterdir()} == before


@pytest.mark.long
def test_pipes(spawn: Callable[..., subprocess.Popen[bytes]], export: Path) -> None:
    """An export may come from another command, as in `zcat … | podium audit costs /dev/stdin`."""
    process = spawn("audit", "costs", "/dev/stdin", "--json")
    told, _ = process.communicate(export.read_bytes(), 30)
    assert json.loads(told)["total"]["calls"] == 2


SCRIPT = '<script>alert("x")</script><img src=x onerror=alert(1)>'
KEY = "sk-proj-abcdefghijklmnop0123456789"
CONTROL = "\x1b]0;owned\x07\x1b[31m\x00\x9b"
MARKS = "| a | b |\n# no title\n[link](https://example.org) ![p](http://example.org/p.png) `x` @all"


UNKNOWN: Any = {"read": None, "written": None, "cached": 0, "reasoning": 0}
"""No tokens."""


def hostile() -> list[exports.Json]:
    """Return runs and spans with something bad in each text that a report shows."""
    rows = []
    for number, bad in enumerate((SCRIPT, KEY, CONTROL, MARKS)):
        named = {"trace": f"{bad}{number}", "id": bad, "model": f"model {bad}", "step": bad}
        prompt = ({"role": "user", "content": f"{bad} and more"},)
        call = Made(**named, error=f"Error{number}", prompt=prompt)
        rows += [exports.langsmith(call) | {"error": f"{bad}: wrong"}, exports.current(call)]
        rows.append(exports.pair(call) | {"service_tier": bad})
        rows.append({"custom_id": "c", "why": bad})
    return rows


def test_no_secrets_and_no_control_characters(tmp_path: Path, podium: Podium) -> None:
    """In no form of the report, although prompts, names, ids and errors have them."""
    path = lines(tmp_path / "a<b>&'c'.jsonl", [*hostile(), f"no json {SCRIPT} {KEY} {CONTROL}"])
    drawn = podium("audit", "costs", str(path))
    assert drawn.exit_code == 3
    for text in (drawn.stdout, drawn.stderr, json.dumps(audit([path]).as_json())):
        assert KEY not in text
        assert KEY[:20] not in text
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
        assert "\\u001b" not in text
    assert "[secret]" in "".join(drawn.stdout.split())


def test_what_is_unknown_is_said(tmp_path: Path, podium: Podium) -> None:
    calls = [
        exports.pair(Made(id="a", model="our-own")),
        exports.current(Made(id="b", trace="t2", error="Timeout", **UNKNOWN)),
        exports.pair(Made(id="c", trace="t3")),
        exports.pair(Made(id="c", trace="t3")),
        exports.chat_body(Made(id="d")) | {"usage": None, "service_tier": "flex"},
    ]
    path = lines(tmp_path / "export.jsonl", [*calls, "{"])
    text = " ".join(podium("audit", "costs", str(path)).stdout.split())
    for told in (
        "Rows that could not be read, and are missing in all figures: 1.",
        "missing in all sums of costs: 2.",
        "Successful calls without tokens in the export: 1.",
        "Failed calls without tokens, counted as not billed (a timeout may be billed): 1.",
        "Calls without a prompt in the export; their repeats and loops cannot be found: 1.",
        "Repeated records of spans, which are not counted twice: 1.",
        "Calls of the service tier flex, at the prices of the standard tier: 1.",
        "+ 2 unknown",
    ):
        assert told in text, told
