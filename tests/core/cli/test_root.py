"""The list of commands: of core, and of installed packages that announce some."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from installing import Install, installer, known_add_ons
from typer.testing import CliRunner, Result

from podium.cli import root
from podium.cli.root import COMMANDS, app
from podium.config.add_ons import ADD_ONS
from podium.errors import install_hint

Podium = Callable[..., Result]


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know packages that are not installed."""
    known_add_ons(monkeypatch)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution of one module."""
    return installer(tmp_path / "site", monkeypatch)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_each_command_says_of_itself(podium: Podium, name: str) -> None:
    """The summaries in the table are the first lines of the commands' own help."""
    result = podium(name, "--help", env={"COLUMNS": "200"})
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert COMMANDS[name] in lines


def test_the_help_lists_every_command(podium: Podium) -> None:
    """Those of core, and those of this project's other packages, with a mark where one is missing."""
    listed = podium("--help", env={"COLUMNS": "200"}).stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in listed] == []
    assert re.search(r"\n  shadow +Compare candidates", listed)
    assert re.search(r"\n  perform +Perform the plan on a stage\. \(not installed\)", listed)


@pytest.mark.parametrize(
    ("name", "distribution", "folder"),
    [
        ("perform", "podium-theatre", "theatre"),
        ("rehearse", "podium-theatre", "theatre"),
        ("teach", "podium-train", "train"),
    ],
)
def test_a_command_that_is_not_installed_says_how_to_install_it(
    podium: Podium, name: str, distribution: str, folder: str
) -> None:
    """With the exit code of a wrong command."""
    result = podium(name, "--port", "80")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"`podium {name}` needs {distribution}, which is not installed" in result.stderr
    assert f"'./packages/{folder}'` in a clone" in result.stderr


@pytest.mark.parametrize("has_pip", [True, False])
def test_a_package_is_installed_beside_what_is_there(
    monkeypatch: pytest.MonkeyPatch, *, has_pip: bool
) -> None:
    """Into this environment, with its pip; uv makes environments that have none."""
    monkeypatch.setattr("podium.errors.find_spec", lambda _: has_pip or None)
    command = f"{sys.executable} -m pip install" if has_pip else f"uv pip install --python {sys.executable}"
    assert install_hint("core[mcp]") == f"run `{command} './packages/core[mcp]'` in a clone of Podium"


def test_a_package_may_be_too_old_for_a_command(podium: Podium, install: Install) -> None:
    """The package is there, and announces nothing of the kind."""
    install("podium-theatre", "", "")
    result = podium("perform")
    assert result.exit_code == 2
    assert "`podium perform` needs a newer podium-theatre than 1.0" in result.stderr


def test_a_command_that_nobody_knows_is_no_command(podium: Podium) -> None:
    """The nearest ones are named."""
    result = podium("shadw")
    assert result.exit_code == 2
    assert "No such command 'shadw'. Did you mean 'shadow'" in result.stderr


@pytest.mark.parametrize("made", ["app", "make_app"])
def test_an_installed_package_adds_a_command(podium: Podium, install: Install, made: str) -> None:
    """As an app or as a function that returns one; imported when it runs, and not for the list."""
    source = (
        "import typer\n"
        "app = typer.Typer(add_completion=False)\n"
        "@app.command()\n"
        "def toy(name: str) -> None:\n"
        "    'Play.'\n"
        "    print(f'plays with {name}')\n"
        "def make_app() -> typer.Typer:\n"
        "    return app\n"
    )
    install("podium-toy", f"[podium.commands]\ntoy = podium_toy:{made}\n", source)
    assert re.search(r"\n  toy +Toys\.\n", podium("--help").stdout)
    assert "podium_toy" not in sys.modules
    result = podium("toy", "blocks")
    assert (result.exit_code, result.stdout) == (0, "plays with blocks\n")


def test_a_known_command_is_listed_as_installed_once_it_is(podium: Podium, install: Install) -> None:
    """Its summary stays that of the table."""
    install(
        "podium-theatre",
        "[podium.commands]\nperform = podium_theatre:app\n",
        "import typer\napp = typer.Typer()\n",
    )
    listed = podium("--help", env={"COLUMNS": "200"}).stdout
    assert re.search(r"\n  perform +Perform the plan on a stage\.\n", listed)


def test_an_entry_point_that_is_no_app_is_told(podium: Podium, install: Install) -> None:
    """By name."""
    install("podium-toy", "[podium.commands]\ntoy = podium_toy:app\n", "app = 3\n")
    result = podium("toy")
    assert result.exit_code == 2
    assert (
        "the entry point 'podium_toy:app' of the command 'toy' does not give a typer.Typer" in result.stderr
    )


def test_two_packages_cannot_announce_one_command(podium: Podium, install: Install) -> None:
    """Neither is chosen silently."""
    for name in ("podium-toy", "podium-other"):
        install(name, f"[podium.commands]\ntoy = {name.replace('-', '_')}:app\n", "")
    result = podium("toy")
    assert result.exit_code == 2
    assert "both have the entry point 'toy' in podium.commands" in result.stderr


def test_commands_stand_in_modules_of_their_names() -> None:
    """Every module of a command is in the table, and reachable."""
    folder = Path(root.__file__).parent / "commands"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(COMMANDS)


def test_the_page_lists_the_commands_in_the_order_of_the_help() -> None:
    """Those of the packages of this project, too."""
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
    table = page[page.index("| command | does |") : page.index("### Output of podium run")]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `podium ")]
    listed = dict.fromkeys(name for cell in first for name in re.findall(r"`podium ([\w-]+)", cell))
    assert list(listed) == [*COMMANDS, *(name for each in ADD_ONS for name in each.commands)]


LOADED = """
import sys
sys.argv = ["podium", *{args!r}]
try:
    from podium.cli import main
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
HEAVY = {
    "aiohttp",
    "asyncpg",
    "httpx",
    "httpx2",
    "numpy",
    "podium_evals",
    "podium_server",
    "podium_shadow",
    "pydantic",
    "rich",
    "sqlite3",
}


def loaded(folder: Path, *args: str) -> set[str]:
    """Return the modules that a command imports, in a process of its own."""
    command = [sys.executable, "-c", LOADED.format(args=list(args))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=folder)
    return set(done.stderr.splitlines()[-1].split())


def test_the_help_imports_no_library_but_typer(tmp_path: Path) -> None:
    """Neither rich and pydantic nor a package that adds a command."""
    modules = loaded(tmp_path, "--help")
    assert modules & HEAVY == set()
    assert not {name for name in modules if name.startswith("podium.cli.commands.")}


def test_parse_imports_little_for_programs(tmp_path: Path) -> None:
    """No config and no terminal; Typer itself reads arguments with pydantic."""
    (tmp_path / "plan.txt").write_text('{"worker": 0, "subtask": "Think.", "access": []}\n')
    modules = loaded(tmp_path, "parse", "plan.txt", "--workers", "1", "--json")
    assert modules & (HEAVY - {"pydantic"}) == set()


@pytest.mark.long
def test_an_offline_run_imports_what_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum in a pipe needs no search, no drawing, no HTTP and no other package."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    CliRunner().invoke(app, ["init", "--preset", "offline", str(tmp_path / "podium.toml")])
    modules = loaded(tmp_path, "run", "12*13")
    assert modules & (HEAVY - {"pydantic", "sqlite3"}) == set()
