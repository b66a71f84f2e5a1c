"""`podium keys` creates, lists, shows, rotates and revokes keys."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from podium.aio import run_sync
from podium_server.keys import KeyRules, KeyStore

Podium = Callable[..., Result]


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "podium.toml"
    path.write_text('[journal]\npath = "runs.db"\n')
    return path


def test_a_key_is_shown_once(podium: Podium) -> None:
    created = podium("keys", "create", "alice", "--day", "5", "--models", "mini, ultra", "--expires", "30d")
    assert created.exit_code == 0, created.stderr
    token = created.stdout.strip()
    found = run_sync(lambda: KeyStore(Path("runs.db")).find(token))
    assert found is not None
    assert (found.key.rules.models, found.key.rules.day_cost) == (("mini", "ultra"), 5.0)
    for shown in (podium("keys", "list"), podium("keys", "show", "alice"), podium("keys", "list", "--json")):
        assert (shown.exit_code, "alice" in shown.stdout, token in shown.stdout) == (0, True, False)
    assert f"ending with {token[-4:]}" in podium("keys", "show", "alice").stdout


def test_a_key_is_updated(podium: Podium) -> None:
    podium("keys", "create", "alice", "--day", "5", "--rpm", "60", "--role", "see", "--expires", "30d")
    updated = podium("keys", "update", "alice", "--day", "7", "--tpm", "100", "--without", "rpm,expires")
    assert updated.exit_code == 0, updated.stderr
    key = run_sync(lambda: KeyStore(Path("runs.db")).key("alice"))
    rules = KeyRules(role="see", day_cost=7.0, tokens_per_minute=100)
    assert (key.rules, key.expires) == (rules, None)
    wrong = podium("keys", "update", "alice", "--without", "dey")
    assert (wrong.exit_code, "--without dey: write names of models, day" in wrong.stderr) == (2, True)


def test_the_log_has_each_change(podium: Podium) -> None:
    """Who, what and when; a change that is altered is told."""
    for command in ("create", "update", "rotate", "revoke"):
        assert podium("keys", command, "alice").exit_code == 0
    assert "revoked" in podium("keys", "list").stdout
    changes = json.loads(podium("keys", "log", "--json").stdout)
    assert [change["what"] for change in changes] == ["create", "update", "rotate", "revoke"]
    assert all(change["who"].startswith("command line") and change["at"] > 1e9 for change in changes)
    assert "create" in podium("keys", "log").stdout
    store = KeyStore(Path("runs.db"))
    for alter in ("DELETE FROM podium_key_changes WHERE number = 0", "UPDATE podium_key_changes SET at = 1"):
        run_sync(lambda text=alter: store.transaction(lambda each: each.execute(text)))  # type: ignore[misc]
        altered = podium("keys", "log")
        assert altered.exit_code != 0
        assert "change 0 in the log of the API keys was altered, or is missing" in altered.stderr


def test_wrong_input_is_explained(podium: Podium, config: Path) -> None:
    for arguments, told in (
        (("create", "a", "--day", "-1"), "day_cost of a key is -1.0"),
        (("create", "a", "--rpm", "many"), "Invalid value for '--rpm'"),
        (("create", "a", "--expires", "30"), "'30' is not a time span"),
        (("create", "a\nb"), "name 'a\\nb' of a key is invalid"),
        (("show", "nobody"), "there is no key 'nobody'"),
    ):
        result = podium("keys", *arguments, env={"COLUMNS": "200"})
        assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
    assert podium("keys", "list", "--json").stdout.strip() == "[]"
    config.write_text("[journal]\noff = true\n")
    result = podium("keys", "list")
    assert (result.exit_code, "remove `off` in [journal]" in result.stderr) == (2, True)


POLICY = """
[workers.calc]
type = "calculator"
labels = ["eu"]
[workers.web]
type = "gather"
labels = ["untrusted"]
[planner]
type = "rule"
[models.small]
workers = ["calc"]
[models.large]
[policy]
labels = ["confidential"]
[[policy.rules]]
label = "untrusted"
never = ["calc"]
"""
"""One model has a part of the workers."""


def test_a_key_that_no_longer_fits_is_told(podium: Podium, config: Path) -> None:
    config.write_text(config.read_text() + POLICY)
    podium("keys", "create", "alice", "--deny", "web")
    checked = podium("serve", "--check", "--port", "0")
    assert "it has rules on labels" in checked.stdout + checked.stderr
    assert checked.exit_code == 0, checked.stderr
    config.write_text(config.read_text().replace("workers.web", "workers.search"))
    checked = podium("serve", "--check", "--port", "0")
    assert checked.exit_code != 0
    assert "API key 'alice': the key does not fit" in checked.stdout + checked.stderr
    config.unlink()
    unread = podium("keys", "create", "bob", "--deny", "web")
    assert (unread.exit_code, unread.stdout) == (2, "")
