"""Programs as workers in `podium.toml`."""

from pathlib import Path

import pytest

from podium.config import load_config
from podium.errors import ConfigError


def write(folder: Path, *lines: str) -> Path:
    """Write a config with one program."""
    path = folder / "podium.toml"
    table = "\n".join(
        ('[workers.sh]\ntype = "command"', *lines, '[planner]\ntype = "fixed"\nplan = "plan.json"')
    )
    path.write_text(table, encoding="utf-8")
    (folder / "plan.json").write_text('{"steps": [{"worker": "sh", "subtask": "Go.", "access": []}]}')
    return path


def test_a_program_is_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder beside the file, with the named variables."""
    monkeypatch.setenv("ITS_TOKEN", "token-of-the-program")
    (tmp_path / "work").mkdir()
    command = """command = ["/bin/sh", "-c", 'echo "$(basename "$PWD") $KIND ${#ITS_TOKEN}"']"""
    lines = ('folder = "work"', "most_cost = 0.5", 'labels = ["eu"]', 'env_from = ["ITS_TOKEN"]')
    path = write(tmp_path, command, *lines, 'env = { KIND = "test" }', "[limits]", "cost = 1.0")
    conductor = load_config(path).conductor(journaled=False)
    card = conductor.pool.cards[0]
    assert (card.name, card.most_cost, card.labels) == ("sh", 0.5, {"eu"})
    assert conductor.pool[0].acts
    assert conductor.run_sync("Go.").answer == "work test 20"


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    """With its line."""
    for line, told in (
        ('env = { API_KEY = "sk-1" }', "a key must not be in this file"),
        ('preset = "cursor"', "write one of 'claude', 'codex', 'gemini' or 'acp'"),
        ('folder = "none"', r"podium\.toml:1: worker 'sh': the folder .*none does not exist"),
    ):
        with pytest.raises(ConfigError, match=told):
            load_config(write(tmp_path, 'command = ["true"]', line)).conductor()
