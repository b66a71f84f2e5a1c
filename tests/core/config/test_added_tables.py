"""Tables of `podium.toml` that belong to other packages."""

import sys
from pathlib import Path

import pytest
from installing import Install, installer, known_add_ons
from pydantic import BaseModel

from podium.config import find_journal, load_config
from podium.errors import ConfigError

TOY = """
from podium.config import Section

class Level(Section):
    height: int

class Toy(Section):
    blocks: int
    levels: list[Level] = []

number = 3
"""
REST = """
[workers.calculator]
type = "calculator"

[planner]
type = "rule"
"""


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know packages that are not installed."""
    known_add_ons(monkeypatch)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution of one module."""
    return installer(tmp_path / "site", monkeypatch)


@pytest.fixture
def toy(install: Install) -> None:
    """Install a package that announces a table."""
    install("podium-toy", "[podium.config]\ntoy = podium_toy:Toy\n", TOY)


def written(tmp_path: Path, text: str) -> Path:
    """Write a config that is sound but for `text`."""
    path = tmp_path / "podium.toml"
    path.write_text(text + REST)
    return path


def test_an_installed_package_is_handed_its_table(tmp_path: Path, toy: None) -> None:
    """As its own model, by name."""
    config = load_config(written(tmp_path, "[toy]\nblocks = 3\nlevels = [{ height = 2 }]\n"))
    model = sys.modules["podium_toy"].Toy
    table = config.table("toy", model)
    assert (table.blocks, table.levels[0].height) == (3, 2)

    class Other(BaseModel):
        """Not the package's."""

    with pytest.raises(TypeError, match=r"\[toy\] is of Toy, not of .*Other"):
        config.table("toy", Other)


def test_a_package_is_not_imported_for_a_file_without_its_table(tmp_path: Path, toy: None) -> None:
    """Whatever is installed."""
    config = load_config(written(tmp_path, ""))
    assert config.table("toy", BaseModel) is None
    assert "podium_toy" not in sys.modules


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[toy]\nblocks = 'three'\n", "podium.toml:2: 'blocks' in [toy] is 'three': write a whole number"),
        (
            "[toy]\nblocks = 3\nblock = 4\n",
            "podium.toml:3: unknown key 'block' in [toy]: did you mean 'blocks'?",
        ),
        ("\n[toy]\n", "podium.toml:2: [toy] lacks 'blocks': add it"),
        ("toy = 3\n", "podium.toml:1: 'toy' in the file is 3: write a table"),
        (
            "[toy]\nblocks = 3\n[[toy.levels]]\nheight = 1\nhigh = 1\n",
            "unknown key 'high' in [toy.levels.0]: did you mean 'height'?",
        ),
    ],
)
def test_what_is_wrong_in_a_table_is_told_by_line(tmp_path: Path, toy: None, text: str, told: str) -> None:
    """In the words of core's own tables."""
    with pytest.raises(ConfigError) as raised:
        load_config(written(tmp_path, text))
    assert told in str(raised.value)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path, toy: None) -> None:
    """In core's tables and in others', in the order of the file."""
    path = written(tmp_path, "[limits]\nrounds = 0\n[toy]\n[limit]\n[train]\n")
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    first, second, third, fourth = str(raised.value).splitlines()
    assert "'rounds' in [limits] is 0" in first
    assert "[toy] lacks 'blocks'" in second
    assert "unknown table [limit]: did you mean 'limits'?" in third
    assert "podium.toml:5: the table [train] needs podium-train, which is not installed" in fourth
    assert "run `pip install './packages/train'` in a clone of Podium" in fourth


def test_a_table_is_checked_for_commands_that_only_read_the_journal(tmp_path: Path) -> None:
    """A table that nobody reads is not passed over."""
    with pytest.raises(ConfigError, match=r"the table \[theatre\] needs podium-theatre"):
        find_journal(written(tmp_path, "[theatre]\nport = 8000\n"))


def test_an_entry_point_that_is_no_model_is_told(tmp_path: Path, install: Install) -> None:
    """By name."""
    install("podium-toy", "[podium.config]\ntoy = podium_toy:number\n", TOY)
    with pytest.raises(ConfigError, match=r"'podium_toy:number' of the table \[toy\] is not a"):
        load_config(written(tmp_path, "[toy]\n"))
