"""Remote agents in `podium.toml`."""

import json
from pathlib import Path

import pytest
from servers.a2a_server import serving
from typer.testing import CliRunner

from podium.cli.root import app
from podium.config import load_config
from podium.errors import ConfigError, WorkerUnavailable


def write(folder: Path, *lines: str) -> Path:
    """Write a config with one agent."""
    path = folder / "podium.toml"
    table = "\n".join(('[workers.bird]\ntype = "a2a"', *lines, '[planner]\ntype = "rule"\n'))
    path.write_text(table, encoding="utf-8")
    return path


def test_an_agent_is_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named after its table, described by its card, with headers from the environment."""
    monkeypatch.setenv("BIRD_TOKEN", "Bearer bird-token-of-mine")
    with serving() as served:
        headers = 'headers_env = { Authorization = "BIRD_TOKEN" }'
        path = write(tmp_path, f'url = "{served.url}"', headers, "acts = false", 'labels = ["eu"]')
        conductor = load_config(path).conductor(journaled=False)
        card = conductor.pool.cards[0]
        assert (card.name, card.labels) == ("bird", {"eu"})
        assert card.description.startswith("Says things. Skills:")
        assert not conductor.pool[0].acts
        assert "You said:" in conductor.run_sync("hello").answer
        assert served.authorization == "Bearer bird-token-of-mine"
        path = write(tmp_path, f'url = "{served.url}"')
        done = CliRunner().invoke(app, ["check", "--json", "--config", str(path)])
    assert [part["ok"] for part in json.loads(done.stdout)["parts"]] == [True, True, True]


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    """A key in the file, and an agent that is not there."""
    path = write(tmp_path, 'url = "http://127.0.0.1:1"', 'headers = { Authorization = "Bearer x" }')
    with pytest.raises(ConfigError, match="a key must not be in this file"):
        load_config(path)
    with pytest.raises(WorkerUnavailable, match="cannot be reached"):
        load_config(write(tmp_path, 'url = "http://127.0.0.1:1"')).conductor()
