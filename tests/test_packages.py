"""The distributions: their metadata agree, and every install line works from a clone of the repository."""

import re
import tomllib
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from podium.cli.root import app
from podium.config.add_ons import ADD_ONS

ROOT = Path(__file__).parents[1]
FOLDERS = sorted(file.parent for file in (ROOT / "packages").glob("*/pyproject.toml"))
PROJECTS: dict[str, dict[str, Any]] = {
    folder.name: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in FOLDERS
}
NAMES = {project["name"]: folder for folder, project in PROJECTS.items()}
APART = {"inspect-podium", "openai-agents-podium", "podium-train"}
"""Distributions that are not installed beside the others: each has an environment of its own."""
TEXTS = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "packages").glob("*/README.md"),
    *(ROOT / "packages").glob("*/src/**/*.py"),
]
URL = PROJECTS["core"]["urls"]["Repository"]
"""The URL of the project, as `packages/core/pyproject.toml` has it; the other packages repeat it."""


_HINT = re.compile(r"install_hint\(['\"]([^'\"]+)['\"]\)")
_INSTALL = re.compile(r"(?:pip|tool) install ((?:'?[\w./-]+(?:\[[\w,-]+\])?'? ?)+)")


def install_lines() -> list[tuple[str, list[str]]]:
    """Return every line of the texts for users that installs something of ours, with its arguments."""
    texts = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in TEXTS}
    hints = [(name, found) for name, text in texts.items() for found in _HINT.findall(text)]
    lines = [(name, line) for name, text in texts.items() for line in _INSTALL.findall(text)]
    found = [(name, re.findall(r"[^\s'\"]+", line)) for name, line in lines + hints]
    return [(name, arguments) for name, arguments in found if any(map(_OURS.match, arguments))]


_OURS = re.compile(r"(?:\./packages/)?([\w-]*podium[\w-]*|(?<=/)[\w-]+)(?:\[([\w,-]+)\])?\Z")


def folder_and_extras(argument: str) -> tuple[str, set[str]]:
    """Split `podium-conductor[mcp]`, or `./packages/core[mcp]`, into `core` and its extras."""
    match = _OURS.match(argument)
    assert match, f"{argument} is neither a package of ours nor its folder"
    folder = match[1] if argument.startswith("./") else NAMES.get(match[1], "")
    assert folder in PROJECTS, f"{argument} is neither a package of ours nor its folder"
    return folder, set(match[2].split(",")) if match[2] else set()


def siblings(project: dict[str, Any], extras: Iterable[str] = ()) -> dict[str, str]:
    """Return the folders of our other distributions that a project needs, and their bounds."""
    needs = [*project["dependencies"]]
    for extra in extras:
        needs += project["optional-dependencies"][extra]
    split = (re.fullmatch(r"([\w-]+)(?:\[[\w,-]+\])?(.*)", need) for need in needs)
    others = (match for match in split if match and match[1] in NAMES and match[1] != project["name"])
    return {NAMES[match[1]]: match[2] for match in others}


@pytest.mark.parametrize("folder", PROJECTS)
def test_metadata_is_complete(folder: str) -> None:
    """Each distribution has a readme, a description, classifiers, and the project's URLs."""
    project = PROJECTS[folder]
    readme = (ROOT / "packages" / folder / project["readme"]).read_text(encoding="utf-8")
    assert readme.startswith(f"# {project['name']}\n")
    assert "```python" in readme
    assert project["description"]
    assert project["license"] == "Apache-2.0"
    assert project["requires-python"] == PROJECTS["core"]["requires-python"]
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)}
    assert versions | {"Typing :: Typed"} <= set(project["classifiers"])
    assert project["urls"] == PROJECTS["core"]["urls"]


@pytest.mark.parametrize("name", sorted(NAMES.keys() - APART))
def test_version_is_the_modules_own(name: str) -> None:
    """The wheel's version is read from `__version__`, and all distributions have the same."""
    (module,) = [path.parent.name for path in (ROOT / "packages" / NAMES[name] / "src").glob("*/__init__.py")]
    assert import_module(module).__version__ == version(name) == version("podium-conductor")


@pytest.mark.parametrize("folder", [folder for folder in PROJECTS if folder != "core"])
def test_bounds_on_the_other_distributions(folder: str) -> None:
    """They are released together, and need each other in their own version."""
    bounds = siblings(PROJECTS[folder], PROJECTS[folder].get("optional-dependencies", {}))
    assert "core" in bounds
    assert set(bounds.values()) == {f"=={version('podium-conductor')}"}


def test_the_url_stands_in_few_places() -> None:
    """Outside the metadata of the packages, only lines that clone the repository have the project's URL."""
    assert URL.startswith("https://")
    lines = [line for file in TEXTS for line in file.read_text(encoding="utf-8").splitlines() if URL in line]
    assert set(lines) == {f"git clone {URL}"}


@pytest.mark.parametrize(("file", "arguments"), install_lines())
def test_install_lines_name_what_there_is(file: str, arguments: list[str]) -> None:
    """Each names packages and extras that exist; from a clone, with all packages that these need."""
    ours = [argument for argument in arguments if _OURS.match(argument)]
    installed = dict(map(folder_and_extras, ours))
    for folder, extras in installed.items():
        assert extras <= set(PROJECTS[folder].get("optional-dependencies", {}))
        if any(argument.startswith("./") for argument in ours):
            assert set(siblings(PROJECTS[folder], extras)) <= set(installed), file


def test_the_tests_of_the_guarantees_exist() -> None:
    text = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+/(?:test_\w+|\w+_contract)\.py)`", text)
    assert named
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []


def test_install_lines_are_found() -> None:
    """Every page of a framework, every readme and every message that asks for an extra has one."""
    files = {file for file, _ in install_lines()}
    hosts = ("autogen", "crewai", "journal", "langchain", "llamaindex", "openai-agents")
    pages = {f"docs/{name}.md" for name in hosts}
    assert pages | {f"packages/{folder}/README.md" for folder in PROJECTS} <= files
    assert len([file for file in files if file.endswith(".py")]) >= 5


SUMMARIES = {
    name: told
    for each in ADD_ONS
    if each.distribution != "podium-evals"
    for name, told in each.commands.items()
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_says_what_each_command_says_of_itself(name: str) -> None:
    """The summaries in core's list are the first sentences of the commands' own help."""
    result = CliRunner().invoke(app, [*name.split("."), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert SUMMARIES[name] in " ".join(result.stdout.split())
