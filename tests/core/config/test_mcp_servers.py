"""MCP servers in `podium.toml`, and what `podium check` shows of them."""

import json
import sys
from pathlib import Path

import pytest
from servers import mcp_server
from servers.web_thread import serving_mcp
from typer.testing import CliRunner

from podium.cli.root import app
from podium.config import load_config
from podium.errors import ConfigError
from podium.types import Plan, Step

PLANNER = '[planner]\ntype = "rule"\n'


def write(folder: Path, table: str, more: str = PLANNER) -> Path:
    """Write a config with one MCP server."""
    path = folder / "podium.toml"
    path.write_text(f'[workers.test]\ntype = "mcp"\n{table}\n{more}', encoding="utf-8")
    return path


def started(folder: Path, *lines: str) -> str:
    """Return the table of the test server as a process."""
    args = json.dumps([mcp_server.__file__, str(folder / "log.txt")])
    return "\n".join((f"command = {json.dumps(sys.executable)}", f"args = {args}", *lines))


@pytest.mark.long
def test_tools_and_resources_are_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are named, with price, labels and variables."""
    monkeypatch.setenv("PET_NAME", "Mimi-the-cat")
    table = started(
        tmp_path,
        'tools = ["environment"]',
        'resources = ["today"]',
        'env = { COLOUR = "red" }',
        'env_from = ["PET_NAME"]',
        'labels = ["eu"]',
        "price = { input = 0, output = 0 }",
    )
    conductor = load_config(write(tmp_path, table)).conductor(journaled=False)
    assert conductor.pool.names == ("test.environment", "test.today")
    assert conductor.pool.cards[1].labels == {"eu"}
    result = conductor.run_sync(Plan((Step(0, "tell me", ()),)))
    seen = json.loads(result.answer)
    assert (seen["COLOUR"], seen["PET_NAME"], result.cost) == ("red", "Mimi-the-cat", 0.0)


def test_headers_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is named, and sent."""
    monkeypatch.setenv("NOTES_TOKEN", "Bearer mno-pqr-stu")
    with serving_mcp(mcp_server.make_server(tmp_path / "log.txt")) as served:
        table = f'url = "{served.url}"\nheaders_env = {{ Authorization = "NOTES_TOKEN" }}'
        names = [worker.card.name for worker in load_config(write(tmp_path, table)).workers("test")]
    assert "test.echo" in names
    assert served.authorization == "Bearer mno-pqr-stu"


def test_a_server_judges_no_answer_and_plans_nothing(tmp_path: Path) -> None:
    """`accept` and the planner need a model."""
    more = f'{PLANNER}[conductor]\naccept = "test"\n'
    with pytest.raises(ConfigError, match=r"'accept' in .* is of type 'mcp'"):
        load_config(write(tmp_path, 'command = "a"', more))
    with pytest.raises(ConfigError, match=r"'worker' in .* is of type 'mcp'"):
        load_config(write(tmp_path, 'command = "a"', '[planner]\nworker = "test"\n'))


@pytest.mark.long
def test_a_tool_that_is_not_offered(tmp_path: Path) -> None:
    """The error has the line, and what is offered."""
    path = write(tmp_path, started(tmp_path, 'tools = ["sing"]'))
    with pytest.raises(ConfigError, match=r"toml:1: MCP server 'test' has no tool 'sing': it has add"):
        load_config(path).conductor()
    with pytest.raises(ConfigError, match=r"not a single worker: its MCP server has test\.echo, test\.add"):
        load_config(write(tmp_path, started(tmp_path, 'tools = ["echo", "add"]'))).worker("test")


@pytest.mark.long
def test_check_shows_what_a_server_offers(tmp_path: Path) -> None:
    """Used or not, and calls none of it."""
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
    """With the code of the error."""
    done = CliRunner().invoke(app, ["check", "--config", str(write(tmp_path, 'command = "no-such-program"'))])
    assert done.exit_code == 1
    assert "✗ mcp server test: worker_refused: MCP server 'test' cannot be started" in done.stdout
