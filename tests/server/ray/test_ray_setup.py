"""What `podium batch --ray` checks on each machine."""

import re
from pathlib import Path

import pytest

from podium.errors import ConfigError
from podium_server.batch.on_ray import Setup, same_as

HERE = "192.0.2.1"


def setup_of(config: Path) -> Setup:
    return Setup(config, HERE, None, tuple(same_as(config)))


@pytest.fixture
def setup(folder: Path) -> Setup:
    return setup_of(folder / "podium.toml")


def refusal(setup: Setup, machine: str = HERE) -> str:
    with pytest.raises(ConfigError) as refused:
        setup.load(machine)
    return str(refused.value)


def test_an_sqlite_journal_of_another_machine(setup: Setup) -> None:
    """It is refused, because a file is not shared."""
    assert re.search(r"cluster also has 192\.0\.2\.2: set `url` in \[journal\]", refusal(setup, "192.0.2.2"))


def test_a_postgresql_journal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "podium.toml"
    file.write_text(file.read_text().replace('path = "runs.db"', 'url_env = "URL"'))
    monkeypatch.setenv("URL", "postgresql://podium@db/podium")
    setup = setup_of(file)
    setup.load("192.0.2.2")
    monkeypatch.setenv("URL", "postgresql://podium@elsewhere/podium")
    assert "set the same variables" in refusal(setup, "192.0.2.2")


def test_another_config(setup: Setup, folder: Path) -> None:
    file = folder / "podium.toml"
    file.write_text(file.read_text() + "\n[limits]\ncost = 5.0\n")
    assert "give each machine the same file" in refusal(setup)
