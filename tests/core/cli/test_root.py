"""The list of commands: of core, and of installed packages that announce some."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from installing import Install, installer, known_add_ons
from typer.testing import Result

from podium.cli.root import COMMANDS, STORY

Podium = Callable[..., Result]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    known_add_ons(monkeypatch)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path / "site", monkeypatch)


def test_the_version_and_the_help_of_each_command(podium: Podium) -> None:
    assert podium("--version").output.startswith("podium ")
    for name in COMMANDS:
        result = podium(*name.split("."), "--help", env={"COLUMNS": "200"})
        said = " ".join(result.stdout.split())
        assert (result.exit_code, COMMANDS[name] in said) == (0, True), name
        assert "3 partial answer; 4 the run waits for a person; 130 interrupted" in said, name


@pytest.mark.usefixtures("known")
def test_a_command_that_is_not_installed(podium: Podium, install: Install) -> None:
    """It says how to install it, with the exit code of a wrong command; the package may be too old."""
    for name in ("perform", "evals perform"):
        result = podium(*name.split(), "--port", "80")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"`podium {name}` needs podium-theatre, which is not installed" in result.stderr
        assert "'podium-theatre'`" in result.stderr
    install("podium-theatre", "", "")
    result = podium("perform")
    assert result.exit_code == 2
    assert "`podium perform` needs a newer podium-theatre than 1.0" in result.stderr


def test_a_command_that_nobody_knows_is_no_command(podium: Podium) -> None:
    for typed, told in (("evls", "'evals'"), ("audit cost", "'costs'")):
        result = podium(*typed.split())
        assert result.exit_code == 2
        assert f"No such command '{typed.split()[-1]}'. Did you mean {told}" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(("group", "made"), [("", "app"), ("evals", "toy")])
def test_an_installed_package_adds_a_command(podium: Podium, install: Install, made: str, group: str) -> None:
    """As an app or as a function, to any group; imported when it runs, and not for the list."""
    source = (
        "import typer\n"
        "app = typer.Typer(add_completion=False)\n"
        "@app.command()\n"
        "def toy(name: str) -> None:\n"
        "    'Play.'\n"
        "    print(f'plays with {name}')\n"
    )
    words = [*([group] if group else []), "toy"]
    install("podium-toy", f"[podium.commands]\n{'.'.join(words)} = podium_toy:{made}\n", source)
    assert re.search(r" toy +Toys\.\n", podium(*words[:-1], "--help").stdout)
    assert "podium_toy" not in sys.modules
    result = podium(*words, "blocks")
    assert (result.exit_code, result.stdout) == (0, "plays with blocks\n")
    assert "Exit codes: 0 success" in podium(*words, "--help").stdout


WRONG_PAIRS = [
    ("show a b --events", "another run does not go with --events"),
    ("show a --open --json", "--open does not go with --json"),
    ("show a --no-browser", "a run without --open does not go with --no-browser"),
    ("resume a --replay --approve --force", "--replay does not go with --approve and --force"),
    ("plan --parse p.txt --workers 1 --labels eu -o x", "--parse does not go with --labels and --out"),
    ("plan --parse p.txt", "--parse needs --workers"),
    ("plan Why? --workers 3", "--workers needs --parse"),
    ("serve --mcp --openapi", "--mcp does not go with --openapi"),
]


def test_options_that_do_not_go_together(podium: Podium) -> None:
    for typed, told in WRONG_PAIRS:
        result = podium(*typed.split())
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr


def test_the_page_lists_the_commands_in_the_order_of_the_help() -> None:
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
    table = page[page.index("| command | does |") : page.index("### Output of podium run")]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `podium ")]
    listed = dict.fromkeys(name for cell in first for name in re.findall(r"`podium (\w+)", cell))
    assert list(listed) == [name for names in STORY.values() for name in names]
