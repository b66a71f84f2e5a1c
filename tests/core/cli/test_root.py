"""The list of commands: of core, and of installed packages that announce some."""

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from installing import Install, installer, known_add_ons
from typer.testing import CliRunner, Result

from podium.cli.root import COMMANDS, STORY, app
from podium.config import add_ons

Podium = Callable[..., Result]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know packages that are not installed."""
    known_add_ons(monkeypatch)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution of one module."""
    return installer(tmp_path / "site", monkeypatch)


EVERY = "run plan runs show resume decide check init demo serve batch audit keys policy evals"


def test_the_help_of_each_command(podium: Podium) -> None:
    """It begins with the command's line in the list, and ends with what the exit codes mean."""
    for name in COMMANDS:
        result = podium(*name.split("."), "--help", env={"COLUMNS": "200"})
        said = " ".join(result.stdout.split())
        assert (result.exit_code, COMMANDS[name] in said) == (0, True), name
        assert "3 partial answer; 4 a plan waits for approval; 130 interrupted" in said, name


def test_the_help_fits_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 lines of 80 columns have all commands, also where the other packages are not installed."""
    for is_installed in (True, False):
        if not is_installed:
            monkeypatch.setattr(add_ons, "installed", lambda _: ())
        lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout.splitlines()
        assert len(lines) < 24
        listed = [found[1] for line in lines if (found := re.match(r"  [ a-z]{7}  (\w+) +[A-Z]", line))]
        assert sorted(listed) == sorted(EVERY.split())
        assert ("(not installed)" in "".join(lines)) is not is_installed


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


def test_commands_without_the_other_packages(podium: Podium, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what is missing."""

    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(add_ons, "installed", lambda _: ())
    monkeypatch.setattr(add_ons, "version", version)
    for typed, told in (
        ("serve", "`podium serve` without --mcp needs podium-server, which is not installed: run `"),
        ("show a --open", "`podium show --open` needs podium-server, which is not installed: run `"),
        ("evals shadow report", "`podium evals` needs podium-evals, which is not installed: run `"),
    ):
        result = podium(*typed.split())
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert told in result.stderr


def test_a_command_that_nobody_knows_is_no_command(podium: Podium) -> None:
    """The nearest ones are named."""
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


def test_wrong_entry_points_are_told(podium: Podium, install: Install) -> None:
    """One that is no app, and two for one command, of which neither is chosen silently."""
    install("podium-toy", "[podium.commands]\ntoy = podium_toy:app\n", "app = 3\n")
    result = podium("toy")
    assert result.exit_code == 2
    assert "the entry point of `podium toy` gives neither a typer.Typer nor a function" in result.stderr
    install("podium-other", "[podium.commands]\ntoy = podium_other:app\n", "")
    result = podium("toy")
    assert result.exit_code == 2
    assert "both have the entry point 'toy' in podium.commands" in result.stderr


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
    """They are told before anything is read."""
    for typed, told in WRONG_PAIRS:
        result = podium(*typed.split())
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr


def test_the_page_lists_the_commands_in_the_order_of_the_help() -> None:
    """Those of the packages of this project, too."""
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
    table = page[page.index("| command | does |") : page.index("### Output of podium run")]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `podium ")]
    listed = dict.fromkeys(name for cell in first for name in re.findall(r"`podium (\w+)", cell))
    assert list(listed) == [name for names in STORY.values() for name in names]


LOADED = """
import sys
sys.argv = ["podium", *{args!r}]
try:
    from podium.cli import main
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
HEAVY = {"aiohttp", "asyncpg", "httpx", "httpx2", "numpy", "pydantic", "rich", "sqlite3"}
HEAVY |= {"podium_evals", "podium_server", "podium_shadow"}


def loaded(folder: Path, *args: str) -> set[str]:
    """Return the modules that a command imports, in a process of its own."""
    command = [sys.executable, "-c", LOADED.format(args=list(args))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=folder)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.long
def test_the_help_imports_no_library_but_typer(tmp_path: Path) -> None:
    """Neither rich and pydantic nor a package that adds a command."""
    modules = loaded(tmp_path, "--help")
    assert modules & HEAVY == set()
    assert not {f"podium.cli.{name}" for name in COMMANDS} & modules


@pytest.mark.long
def test_an_offline_run_imports_what_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum in a pipe needs no search, no drawing, no HTTP and no other package."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    CliRunner().invoke(app, ["init", "--preset", "offline", str(tmp_path / "podium.toml")])
    modules = loaded(tmp_path, "run", "12*13")
    assert modules & (HEAVY - {"pydantic", "sqlite3"}) == set()
