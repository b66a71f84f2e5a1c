"""MCP servers, remote agents and programs in `podium.toml`, and what `podium check` shows of them."""

import json
import sys
from pathlib import Path

import pytest
from servers import mcp_server
from servers.a2a_server import serving
from servers.web_thread import serving_mcp
from typer.testing import CliRunner

from podium import Plan, Step
from podium.cli.root import app
from podium.config import load_config
from podium.errors import ConfigError, WorkerUnavailable

PLANNER = '[planner]\ntype = "rule"\n'


def write(folder: Path, table: str, more: str = PLANNER) -> Path:
    path = folder / "podium.toml"
    path.write_text(f'[workers.test]\ntype = "mcp"\n{table}\n{more}', encoding="utf-8")
    return path


def started(folder: Path, *lines: str) -> str:
    """Return the table of the test server as a process."""
    args = json.dumps([mcp_server.__file__, str(folder / "log.txt")])
    return "\n".join((f"command = {json.dumps(sys.executable)}", f"args = {args}", *lines))


@pytest.mark.long
def test_tools_and_resources_are_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NAME", "Mimi-the-cat")
    lines = ('tools = ["environment"]', 'resources = ["today"]', 'env = { COLOUR = "red" }')
    lines += ('env_from = ["PET_NAME"]', 'labels = ["eu"]', "price = { input = 0, output = 0 }")
    table = started(tmp_path, *lines)
    conductor = load_config(write(tmp_path, table)).conductor(journaled=False)
    assert conductor.pool.names == ("test.environment", "test.today")
    assert conductor.pool.cards[1].labels == {"eu"}
    result = conductor.run_sync(Plan((Step(0, "tell me", ()),)))
    seen = json.loads(result.answer)
    assert (seen["COLOUR"], seen["PET_NAME"], result.cost) == ("red", "Mimi-the-cat", 0.0)


def test_headers_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "Bearer mno-pqr-stu")
    with serving_mcp(mcp_server.make_server(tmp_path / "log.txt")) as served:
        table = f'url = "{served.url}"\nheaders_env = {{ Authorization = "NOTES_TOKEN" }}'
        names = [worker.card.name for worker in load_config(write(tmp_path, table)).workers("test")]
    assert "test.echo" in names
    assert served.authorization == "Bearer mno-pqr-stu"


def test_a_server_judges_no_answer_and_plans_nothing(tmp_path: Path) -> None:
    more = f'{PLANNER}[conductor]\naccept = "test"\n'
    with pytest.raises(ConfigError, match=r"'accept' in .* is of type 'mcp'"):
        load_config(write(tmp_path, 'command = "a"', more))
    with pytest.raises(ConfigError, match=r"'worker' in .* is of type 'mcp'"):
        load_config(write(tmp_path, 'command = "a"', '[planner]\nworker = "test"\n'))


@pytest.mark.long
def test_a_tool_that_is_not_offered(tmp_path: Path) -> None:
    path = write(tmp_path, started(tmp_path, 'tools = ["sing"]'))
    with pytest.raises(ConfigError, match=r"toml:1: MCP server 'test' has no tool 'sing': it has add"):
        load_config(path).conductor()
    with pytest.raises(ConfigError, match=r"not a single worker: its MCP server has test\.echo, test\.add"):
        load_config(write(tmp_path, started(tmp_path, 'tools = ["echo", "add"]'))).worker("test")


@pytest.mark.long
def test_check_shows_what_a_server_offers(tmp_path: Path) -> None:
    path = write(tmp_path, started(tmp_path, 'tools = ["echo"]'))
    done = CliRunner().invoke(app, ["check", "--config", str(path)])
    assert done.exit_code == 0
    assert "test.echo (tool): Say what it is told." in done.stdout
    assert "test.send (tool): not used; acts; Send a message" in done.stdout
    done = CliRunner().invoke(app, ["check", "--json", "--config", str(path)])
    part = json.loads(done.stdout)["parts"][0]
    assert (part["role"], part["ok"]) == ("mcp server", True)
    echo = next(offer for offer in part["offers"] if offer["name"] == "echo")
    assert (echo["worker"], echo["acts"]) == ("test.echo", False)
    assert not (tmp_path / "log.txt").exists()


def test_check_tells_of_a_server_that_does_not_start(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", "--config", str(write(tmp_path, 'command = "no-such-program"'))])
    assert done.exit_code == 1
    assert "✗ mcp server test: worker_refused: MCP server 'test' cannot be started" in done.stdout


def agent(folder: Path, *lines: str) -> Path:
    path = folder / "podium.toml"
    table = "\n".join(('[workers.bird]\ntype = "a2a"', *lines, '[planner]\ntype = "rule"\n'))
    path.write_text(table, encoding="utf-8")
    return path


def test_an_agent_is_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIRD_TOKEN", "Bearer bird-token-of-mine")
    with serving() as served:
        headers = 'headers_env = { Authorization = "BIRD_TOKEN" }'
        path = agent(tmp_path, f'url = "{served.url}"', headers, "acts = false", 'labels = ["eu"]')
        conductor = load_config(path).conductor(journaled=False)
        card = conductor.pool.cards[0]
        assert (card.name, card.labels) == ("bird", {"eu"})
        assert card.description.startswith("Says things. Skills:")
        assert not conductor.pool[0].acts
        assert "You said:" in conductor.run_sync("hello").answer
        assert served.authorization == "Bearer bird-token-of-mine"
        path = agent(tmp_path, f'url = "{served.url}"')
        done = CliRunner().invoke(app, ["check", "--json", "--config", str(path)])
    assert [part["ok"] for part in json.loads(done.stdout)["parts"]] == [True, True, True]


def test_a_wrong_agent_is_told(tmp_path: Path) -> None:
    path = agent(tmp_path, 'url = "http://127.0.0.1:1"', 'headers = { Authorization = "Bearer x" }')
    with pytest.raises(ConfigError, match="a key must not be in this file"):
        load_config(path)
    with pytest.raises(WorkerUnavailable, match="cannot be reached"):
        load_config(agent(tmp_path, 'url = "http://127.0.0.1:1"')).conductor()


def program(folder: Path, *lines: str) -> Path:
    path = folder / "podium.toml"
    planner = '[planner]\ntype = "fixed"\nplan = "plan.json"'
    path.write_text("\n".join(('[workers.sh]\ntype = "command"', *lines, planner)), encoding="utf-8")
    (folder / "plan.json").write_text('{"steps": [{"worker": "sh", "subtask": "Go.", "access": []}]}')
    return path


def test_a_program_is_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITS_TOKEN", "token-of-the-program")
    (tmp_path / "work").mkdir()
    command = """command = ["/bin/sh", "-c", 'echo "$(basename "$PWD") $KIND ${#ITS_TOKEN}"']"""
    lines = ('folder = "work"', "most_cost = 0.5", 'labels = ["eu"]', 'env_from = ["ITS_TOKEN"]')
    path = program(tmp_path, command, *lines, 'env = { KIND = "test" }', "[limits]", "cost = 1.0")
    conductor = load_config(path).conductor(journaled=False)
    card = conductor.pool.cards[0]
    assert (card.name, card.most_cost, card.labels) == ("sh", 0.5, {"eu"})
    assert conductor.pool[0].acts
    assert conductor.run_sync("Go.").answer == "work test 20"


def test_a_wrong_program_is_told(tmp_path: Path) -> None:
    for line, told in (
        ('env = { API_KEY = "sk-1" }', "a key must not be in this file"),
        ('preset = "cursor"', "write one of 'claude', 'codex', 'gemini' or 'acp'"),
        ('folder = "none"', r"podium\.toml:1: worker 'sh': the folder .*none does not exist"),
    ):
        with pytest.raises(ConfigError, match=told):
            load_config(program(tmp_path, 'command = ["true"]', line)).conductor()
