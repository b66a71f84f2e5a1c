"""Commands on recorded runs: they are listed, shown, compared, verified and forgotten."""

import json
import re
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from core.cli.conftest import PLAN
from servers.chat_server import Call, ChatServer, Reply, says
from typer.testing import Result

Podium = Callable[..., Result]


def run_id(result: Result) -> str:
    """Return the id that `run` told on stderr."""
    found = re.search(r"podium: run (\w+)", result.stderr)
    assert found is not None, result.stderr
    return found[1]


def rows(podium: Podium, *args: str) -> list[dict[str, Any]]:
    """Return what `runs --json` lists."""
    listed: list[dict[str, Any]] = json.loads(podium("runs", "--json", *args).stdout)
    return listed


def tamper(path: Path, old: str, new: str) -> None:
    """Replace a text wherever it stands in an SQLite file."""
    with closing(sqlite3.connect(path)) as database, database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for column in [row[1] for row in database.execute(f"PRAGMA table_info({table})")]:
                update = (
                    f"UPDATE {table} SET {column} = replace({column}, ?, ?) WHERE typeof({column}) = 'text'"  # noqa: S608
                )
                database.execute(update, (old, new))


def test_runs_since_a_time_and_their_cost(podium: Podium, config: Path) -> None:
    """Newest first; by a time span or a date; all, unless a limit is given; with the sum of the costs."""
    prices = "price = {input = 1.0, output = 1.73}\n"
    plain = config.read_text()
    config.write_text(plain.replace('model = "small"\n', f'model = "small"\n{prices}'))
    for number in range(3):
        podium("run", f"Question {number}?", "--plan", _plan())
    listed = [(row["question"], row["state"], row["seconds"] > 0) for row in rows(podium, "--limit", "2")]
    assert listed == [("Question 2?", "ok", True), ("Question 1?", "ok", True)]
    table = podium("runs", "--limit", "2")
    assert "Question 2?" in table.stdout
    assert re.search(r"\n\n2 runs: \$0\.\d{4}\n$", table.stdout)
    assert "there are more runs: see --limit and --since" in table.stderr
    since = datetime.now().astimezone() - timedelta(minutes=5)
    for told in ("1h", since.strftime("%Y-%m-%dT%H:%M"), since.isoformat(), "2026-01-01"):
        assert len(rows(podium, "--since", told)) == 3
    nothing = podium("runs", "--since", "2999-01-01")
    assert (nothing.stdout, nothing.stderr) == ("", "podium: the journal has no runs since then\n")
    wrong = podium("runs", "--since", "tomorrow")
    assert wrong.exit_code == 2
    assert "'tomorrow' is neither a time span, as in 12h or 30d, nor a date" in wrong.stderr
    config.write_text(plain)
    podium("run", "How much?")
    told = podium("runs", "--limit", "2").stdout.splitlines()[-1]
    assert re.fullmatch(r"2 runs: \$0\.\d{4} and the unknown cost of 1 run", told)


def _plan() -> str:
    Path("one.txt").write_text('{"worker": 0, "subtask": "Speak.", "access": []}\n')
    return "one.txt"


@pytest.mark.parametrize("args", [("--no-journal",), ()])
def test_runs_that_are_not_recorded(podium: Podium, config: Path, args: tuple[str, ...]) -> None:
    if not args:
        config.write_text(config.read_text() + "[journal]\noff = true\n")
    result = podium("run", "What is it?", *args)
    assert (result.stdout, result.stderr) == ("forty-two\n", "")
    assert not Path("state").exists()
    if not args:
        for command in (("runs",), ("show", "x"), ("resume", "x"), ("run", "--run-id", "job", "What?")):
            refused = podium(*command)
            assert refused.exit_code == 2
            assert "[journal]" in refused.stderr


def test_show_for_programs(podium: Podium, config: Path) -> None:
    known = run_id(podium("run", "What is it?", "--labels", "eu,secret"))
    said = json.loads(podium("show", known, "--json").stdout)
    assert (said["run_id"], said["state"], said["answer"]) == (known, "ok", "forty-two")
    assert (said["labels"], said["query"]) == (["eu", "secret"], [{"role": "user", "content": "What is it?"}])
    assert [o["worker"] for o in said["outcomes"]] == ["thinker", "speaker"]
    events = [json.loads(line) for line in podium("show", known, "--events").stdout.splitlines()]
    assert [event["number"] for event in events] == list(range(len(events)))
    assert (events[0]["type"], events[-1]["type"]) == ("run_started", "run_ended")


def test_reading_needs_no_workers_and_no_keys(
    podium: Podium, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was recorded can be read when the pool has changed, or there is no config any more."""
    ids = [run_id(podium("run", "What is it?")) for _ in range(2)]
    monkeypatch.delenv("LOOPBACK_KEY")
    for command in (("runs",), ("show", ids[0]), ("show", *ids), ("audit", "verify")):
        for text in ("[workers.other]\ntype = 'gather'\n", None):
            config.unlink(missing_ok=True) if text is None else config.write_text(text)
            assert podium(*command).exit_code == 0, command


def test_run_that_is_not_there(podium: Podium, config: Path) -> None:
    for known in ("job", "job-2"):
        assert podium("run", "What is it?", "--run-id", known).exit_code == 0
    assert json.loads(podium("show", "job", "--json").stdout)["run_id"] == "job"
    for command, typed in (("show", "jo"), ("show", "nobody"), ("resume", "%")):
        result = podium(command, typed)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "run begins with" in result.stderr


def test_answer_that_cannot_be_recorded_is_shown(podium: Podium, config: Path, server: ChatServer) -> None:
    config.write_text(config.read_text() + '[journal]\npath = "runs.db"\npatience = 0.1\n')

    def breaks(call: Call) -> Reply:
        if "Step 0" in str(call.body["messages"][-1]["content"]):
            with closing(sqlite3.connect("runs.db")) as database, database:
                database.execute("DROP TABLE podium_events")
        plan = '{"worker": 0, "subtask": "a", "access": []}\n{"worker": 1, "subtask": "b", "access": [0]}\n'
        return says(call, plan if "structured_outputs" in call.body else "forty-two")

    server.reply = breaks
    result = podium("run", "What is it?")
    assert (result.exit_code, result.stdout) == (1, "forty-two\n")
    assert result.stderr.startswith("podium: ")
    assert "Traceback" not in result.stderr


def test_runs_are_forgotten(podium: Podium, config: Path) -> None:
    """By name, or all that ended long ago; an age that can be misread, such as `1m`, deletes nothing."""
    ids = [run_id(podium("run", question)) for question in ("First?", "Second?")]
    assert podium("runs", "delete", ids[0][:8]).exit_code == 0
    assert [row["run_id"] for row in rows(podium)] == [ids[1]]
    for wrong in ("30", "-1d", "0m"):
        result = podium("runs", "prune", f"--older-than={wrong}")
        assert result.exit_code == 2
        assert "h (hours), d (days) or w (weeks)" in " ".join(result.stderr.split())
    assert "deleted 0 runs" in podium("runs", "prune", "--older-than", "1d").stderr
    assert podium("runs", "prune", "--older-than", "0h", "--dry-run").stderr == "podium: would delete 1 run\n"
    assert [row["run_id"] for row in rows(podium)] == [ids[1]]
    assert "deleted 1 run" in podium("runs", "prune", "--older-than", "0h").stderr
    assert rows(podium) == []


def test_kept_answers_are_forgotten(podium: Podium, config: Path, server: ChatServer) -> None:
    """With the runs of their time, or all of them and no run; also where no run is recorded."""
    config.write_text(config.read_text() + '[conductor]\ncache = "shared"\n[journal]\npath = "runs.db"\n')

    def calls() -> int:
        server.calls.clear()
        assert podium("run", "What is it?").exit_code == 0
        return len(server.calls)

    assert (calls(), calls()) == (3, 1)  # a planner's text is not kept
    dry = podium("runs", "prune", "--older-than", "0h", "--dry-run")
    assert "would delete 2 runs and 2 cached answers" in dry.stderr
    assert "deleted 2 runs and 2 cached answers" in podium("runs", "prune", "--older-than", "0h").stderr
    assert calls() == 3
    config.write_text(config.read_text() + "off = true\n")
    assert "deleted 2 cached answers" in podium("runs", "cache", "--clear").stderr


def test_what_differs(podium: Podium, config: Path, server: ChatServer) -> None:
    first, second = (run_id(podium("run", "What is it?")) for _ in range(2))
    assert "differ in nothing" in podium("show", first, second).stdout
    server.reply = lambda call: says(call, PLAN if "structured_outputs" in call.body else "forty-three")
    third = run_id(podium("run", "What is it?"))
    said = json.loads(podium("show", first, third, "--json").stdout)
    assert said["runs"] == [first, third]
    answer = next(found for found in said["differences"] if found["what"] == "answer")
    assert (answer["before"], answer["after"], answer["step"]) == ("forty-two", "forty-three", None)
    assert "forty-three" in podium("show", first, third).stdout


def test_audit_finds_what_was_changed(podium: Podium, config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text() + '[journal]\npath = "runs.db"\n')
    known = run_id(podium("run", "What is it?"))
    assert podium("audit", "verify").exit_code == 0
    assert podium("audit", "export", "--all", "-o", "copy.jsonl").exit_code == 0
    assert podium("audit", "export", known).stdout == Path("copy.jsonl").read_text()
    assert stat.S_IMODE(Path("copy.jsonl").stat().st_mode) == 0o600
    assert podium("audit", "verify", "copy.jsonl").exit_code == 0
    whole = Path("copy.jsonl").read_text()
    Path("copy.jsonl").write_text(whole[: whole.rindex("\n", 0, -1) + 1])
    cut = podium("audit", "verify", "copy.jsonl")
    assert (cut.exit_code, cut.stderr) == (0, "podium: 1 run verified, 1 without an end\n")
    assert cut.stdout.startswith(
        f"? run {known}: unfinished when it was exported, or its last records were removed; "
    )
    shown = json.loads(podium("show", known, "--json").stdout)
    assert shown["hash"] == json.loads(whole.splitlines()[-1])["hash"]
    Path("copy.jsonl").write_text(whole.replace("forty-two", "forty-six"))
    result = podium("audit", "verify", "copy.jsonl")
    assert (result.exit_code, known in result.stdout) == (1, True)
    tamper(Path("runs.db"), "forty-two", "forty-six")
    result = podium("audit", "verify")
    assert (result.exit_code, known in result.stdout) == (1, True)


@pytest.mark.parametrize("change", ["UPDATE podium_runs SET cost = 1e999", "DELETE FROM podium_events"])
def test_a_damaged_run_is_listed_as_damaged(podium: Podium, config: Path, change: str) -> None:
    config.write_text(config.read_text() + "[journal]\npath = 'runs.db'\n")
    for name in "ab":
        podium("run", "What?", "--run-id", name)
    with closing(sqlite3.connect("runs.db")) as database, database:
        database.execute(f"{change} WHERE run_id = 'b'")
    assert {row["run_id"]: row["state"] for row in rows(podium)} == {"a": "ok", "b": "damaged"}
    assert "damaged" in podium("runs").stdout
