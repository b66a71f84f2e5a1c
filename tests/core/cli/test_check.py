"""`podium check`: which parts of a config work."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole
from typer.testing import Result

Podium = Callable[..., Result]


def test_all_that_works(podium: Podium, config: Path, server: ChatServer) -> None:
    """Each worker and the planner is called once, and told with model, tokens and constraints."""
    result = podium("check", "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, said["ok"], len(server.calls)) == (0, True, 3)
    planner = said["parts"][-1]
    assert (planner["role"], planner["model"], planner["tokens"]) == ("planner", "small", 18)
    assert planner["structured_output"] == ["grammar", "json"]


def test_part_that_fails(podium: Podium, config: Path, server: ChatServer) -> None:
    """A worker that is down and a planner that writes prose are told, beside one that works."""

    def reply(call: Call) -> Reply:
        if "structured_outputs" in call.body:
            return says(call, "Let me think about it.")
        return says(call, "4") if call.body["model"] == "small" else whole({}, status=404)

    server.reply = reply
    config.write_text(config.read_text().replace('model = "small"', 'model = "gone"', 1))
    result = podium("check", "--json")
    assert result.exit_code == 1
    thinker, speaker, planner = json.loads(result.stdout)["parts"]
    assert thinker["error"].startswith("worker_")
    assert speaker["ok"]
    assert not planner["ok"]


def test_table_names_the_trouble(podium: Podium, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key nothing is called, the table shows every part, and a line whole what is wrong with it."""
    monkeypatch.delenv("LOOPBACK_KEY")
    result = podium("check", env={"COLUMNS": "80"})
    assert result.exit_code == 1
    table, told = result.stdout.splitlines()[:-3], result.stdout.splitlines()[-3:]
    assert [line.partition(":")[0] for line in told] == ["✗ thinker", "✗ speaker", "✗ planner"]
    assert all("LOOPBACK_KEY is not set" in line and "or take its workers out" in line for line in told)
    assert "speaker" in "".join(table)
    assert "LOOPBACK_KEY" not in "".join(table)


def test_hosted_conductor_is_called_once(podium: Podium, config: Path, server: ChatServer) -> None:
    """A hosted conductor is one part."""
    head = config.read_text().partition("[workers.thinker]")[0]
    config.write_text(head + '[hosted]\nendpoint = "loopback"\napi = "chat"\n')
    said = json.loads(podium("check", "--json").stdout)
    assert [(part["role"], part["ok"]) for part in said["parts"]] == [("conductor", True)]
