"""`podium check`: which parts of a config work."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole
from typer.testing import Result

Podium = Callable[..., Result]


def test_all_that_works(podium: Podium, config: Path, server: ChatServer) -> None:
    result = podium("check", "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["ok"], len(server.calls)) == (0, True, 3)
    planner, journal = said["parts"][-2:]
    assert (planner["role"], planner["model"], planner["tokens"]) == ("planner", "small", 218)
    assert planner["structured_output"] == ["grammar", "json"]
    assert (journal["role"], journal["ok"]) == ("journal", True)
    assert Path(journal["place"]).is_file()


def test_part_that_fails(podium: Podium, config: Path, server: ChatServer) -> None:
    def reply(call: Call) -> Reply:
        if "structured_outputs" in call.body:
            return says(call, "Let me think about it.")
        return says(call, "4") if call.body["model"] == "small" else whole({}, status=404)

    server.reply = reply
    config.write_text(config.read_text().replace('model = "small"', 'model = "gone"', 1))
    result = podium("check", "--json")
    assert result.exit_code == 1
    thinker, speaker, planner, _ = json.loads(result.stdout)["parts"]
    assert thinker["error"].startswith("worker_")
    assert speaker["ok"]
    assert planner["error"].startswith("planner_unusable: its text has no plan")
    assert all(text in planner["error"] for text in ("begins: Let me think about it.", 'fallback = "rule"'))


RULES = "labels = ['x']\nrules = [{label = 'x', never = ['thinker']}]"


def test_a_policy_that_protects_nothing(podium: Podium, config: Path) -> None:
    plain = config.read_text()
    for policy, code, start, told in (
        ("denied = ['Thinker']", 1, "✗ policy: podium.toml:18: [policy]", "did you mean 'thinker'?"),
        (RULES, 0, "! policy: it has rules on", ""),
        (f"unknown = ['x']\n{RULES}", 0, "", ""),
    ):
        config.write_text(f"{plain}[policy]\n{policy}\n")
        checked = podium("check", env={"COLUMNS": "200"})
        assert checked.exit_code == code, checked.stdout
        lines = [line for line in checked.stdout.splitlines() if line[2:].startswith("policy:")]
        assert len(lines) == bool(start)
        assert "".join(lines).startswith(start)
        assert told in "".join(lines)


def test_table_names_the_trouble(podium: Podium, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPBACK_KEY")
    result = podium("check", env={"COLUMNS": "80"})
    assert result.exit_code == 1
    table, told = result.stdout.splitlines()[:-3], result.stdout.splitlines()[-3:]
    assert [line.partition(":")[0][2:] for line in told] == ["worker thinker", "worker speaker", "planner"]
    assert all(line.startswith("✗ ") for line in told)
    assert all("LOOPBACK_KEY is not set" in line and "or remove its workers" in line for line in told)
    assert "speaker" in "".join(table)
    assert "LOOPBACK_KEY" not in "".join(table)


def test_what_a_part_costs_and_who_says_so(podium: Podium, config: Path, server: ChatServer) -> None:
    facts = 'model = "small"\nprice = { input = 1.5, output = 6.0 }\ncontext_window = 8000'
    config.write_text(config.read_text().replace('model = "small"', facts, 1))
    thinker, speaker, planner, _ = json.loads(podium("check", "--json").stdout)["parts"]
    for part in (thinker, planner):
        assert (part["price"]["input"], part["price"]["output"], part["price_source"]) == (1.5, 6.0, "config")
        assert (part["context_window"], part["context_window_source"]) == (8000, "config")
    assert (speaker["price"], speaker["price_source"], speaker["context_window_source"]) == (None, None, None)
    lines = podium("check", env={"COLUMNS": "80"}).stdout.splitlines()
    for start, told in (
        ("worker thinker: ", "$1.5 in, 6 out (config); context window 8,000 (config)"),
        ("worker speaker: ", "price per million tokens: unknown; context window unknown"),
    ):
        assert [told in line for line in lines if line.startswith(start)] == [True]


def test_a_journal_of_another_version_blocks_neither_check_nor_no_journal(
    podium: Podium, config: Path, tmp_path: Path
) -> None:
    """The check reports its path; a run names the setting and the option, and `--no-journal` runs."""
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute("CREATE TABLE podium_schema (version INTEGER NOT NULL)")
    config.write_text(config.read_text() + f'[journal]\npath = "{tmp_path / "old.db"}"\n')
    checked = podium("check")
    assert checked.exit_code == 1
    (told,) = [line for line in checked.stdout.splitlines() if line.startswith("✗ journal: ")]
    refused = podium("run", "What is it?")
    assert (refused.exit_code, refused.stdout) == (1, "")
    for text in (told, refused.stderr):
        assert f"an earlier version of Podium wrote {tmp_path / 'old.db'}, and" in text
        assert "`path` in [journal] of podium.toml" in text
        assert "`podium run --no-journal`" in text
    assert podium("run", "What is it?", "--no-journal").stdout == "forty-two\n"


def test_what_acts_is_not_called_and_plans_are_checked(podium: Podium, config: Path) -> None:
    step = '[[steps]]\nworker = "ghost"\nsubtask = "Boo."\naccess = []\n'
    (config.parent / "boo.toml").write_text(f'name = "boo"\n{step}', encoding="utf-8")
    tables = '[workers.agent]\ntype = "command"\ncommand = ["touch", "called"]\n[plans]\nboo = "boo.toml"\n'
    config.write_text(config.read_text() + tables)
    result = podium("check", "--json")
    parts = {part["name"]: part for part in json.loads(result.stdout)["parts"]}
    assert result.exit_code == 1
    assert "step 0 names worker 'ghost'" in parts["boo"]["error"]
    assert "it was not called" in str(parts["agent"]["warnings"])
    assert not (config.parent / "called").exists()
