"""The table of `docs/frameworks.md`: each cell names tests, and each named test is there and runs."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/frameworks.md").read_text()
HOSTS = (
    "LangChain",
    'LangGraph, `executor="podium"`',
    'LangGraph, `executor="langgraph"`',
    "LlamaIndex",
    "CrewAI",
    "AutoGen",
    "Agent Framework",
    "OpenAI Agents SDK",
)
COLUMNS = ("streaming", "approval", "checkpoints, resume", "cancel", "usage")
NOTES = dict(re.findall(r"^\[\^([\w-]+)\]: (.+)$", PAGE, re.MULTILINE))
CONTRACT = ROOT / "tests/contracts/adapter_contract.py"


def cells(line: str) -> list[str]:
    """Return the cells of a table's line."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def table() -> list[list[str]]:
    """Return the lines of the table of hosts, the first being its head."""
    lines = PAGE.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| | streaming"))
    rows = [cells(lines[head])]
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def notes_of(cell: str) -> list[str]:
    """Return the names of the notes that a cell refers to."""
    return re.findall(r"\[\^([\w-]+)\]", cell)


def names_of(note: str) -> list[str]:
    """Return the tests that a note names."""
    return re.findall(r"`([^`]+)`", note)


@cache
def parsed(path: Path) -> ast.Module:
    """Return a file's code, without running it."""
    return ast.parse(path.read_text())


def named_in(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names of the tests among these statements."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def class_in(path: Path, name: str) -> ast.ClassDef | None:
    """Return a file's class of that name."""
    found = (node for node in parsed(path).body if isinstance(node, ast.ClassDef) and node.name == name)
    return next(found, None)


def lacks(node: ast.ClassDef) -> set[str]:
    """Return what a class says in `lacks` that its host makes impossible."""
    for line in node.body:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == "lacks" for target in targets):
            value = getattr(line, "value", None)
            assert isinstance(value, ast.Dict), "lacks is not a plain dict"
            return {key.value for key in value.keys if isinstance(key, ast.Constant)}  # type: ignore[misc]
    return set()


def is_there(name: str) -> bool:
    """Say whether a test is collected under this name, its own or the contract's."""
    file, *within = name.split("::")
    path = ROOT / file
    if not path.is_file() or not path.name.startswith("test_") or not within:
        return False
    if len(within) == 1:
        return within[0] in named_in(parsed(path).body)
    node = class_in(path, within[0])
    if node is None or not node.name.startswith("Test"):
        return False
    contract = class_in(CONTRACT, "AdapterContract")
    assert contract is not None
    keeps = any(isinstance(base, ast.Name) and base.id == contract.name for base in node.bases)
    inherited = set(named_in(contract.body)) - lacks(node) if keeps else set()
    return within[1] in {*named_in(node.body), *inherited}


def test_the_table_has_all_hosts_and_columns() -> None:
    """In this order; no cell is left out."""
    head, *rows = table()
    assert tuple(head[1:]) == COLUMNS
    assert tuple(row[0] for row in rows) == HOSTS
    assert {len(row) for row in rows} == {len(COLUMNS) + 1}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("host", HOSTS)
def test_a_cell_names_tests_that_exist(host: str, column: str) -> None:
    """By a note, which names at least one."""
    row = next(row for row in table()[1:] if row[0] == host)
    notes = notes_of(row[1 + COLUMNS.index(column)])
    assert notes
    for note in notes:
        names = names_of(NOTES[note])
        assert names
        assert [name for name in names if not is_there(name)] == []


def test_each_note_is_one_cells() -> None:
    """None is written twice, and none is left over."""
    used = [note for row in table()[1:] for cell in row[1:] for note in notes_of(cell)]
    assert sorted(used) == sorted(NOTES)
    assert len(re.findall(r"^\[\^[\w-]+\]:", PAGE, re.MULTILINE)) == len(NOTES)


def test_what_a_host_cannot_do_is_no_test_that_is_there() -> None:
    """Nor is a class, a method of something else or a file that is not there."""
    contract = "tests/crewai/test_contract.py::TestCrewAI"
    assert is_there(f"{contract}::test_limits_hold")
    assert not is_there(f"{contract}::test_a_cancel_reaches_the_worker")
    assert not is_there(f"{contract}::test_nothing_of_the_kind")
    assert not is_there("tests/crewai/test_contract.py::test_limits_hold")
    assert not is_there("tests/contracts/adapter_contract.py::AdapterContract::test_limits_hold")
    assert not is_there("tests/nowhere/test_contract.py::test_limits_hold")


def test_the_versions_are_those_of_the_packages() -> None:
    """As each package's own project file has them."""
    rows = [cells(line) for line in PAGE.splitlines() if re.match(r"\| `[\w-]+-podium", line)]
    told = {(names_of(row[0])[0], names_of(row[2])[0]) for row in rows}
    needed: set[tuple[str, str]] = set()
    for file in sorted((ROOT / "packages").glob("*/pyproject.toml")):
        project = tomllib.loads(file.read_text())["project"]
        if not project["name"].endswith("-podium"):
            continue
        needed |= {(project["name"], each) for each in project["dependencies"]}
        for extra, dependencies in project.get("optional-dependencies", {}).items():
            needed |= {(f"{project['name']}[{extra}]", each) for each in dependencies}
    assert told <= needed
    assert {package for package, _ in told} == {package for package, _ in needed}


def test_its_links_lead_somewhere() -> None:
    """Files that are there."""
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", PAGE)]
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_the_readme_is_short() -> None:
    """Under a hundred lines, with one example; it links the page of each framework."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) < 100
    assert readme.count("```python") == 1
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", readme)]
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
    pages = re.findall(r"\]\((\w[\w-]*\.md)\) \|$", PAGE, re.MULTILINE)
    assert len(pages) > 5
    assert {f"docs/{page}" for page in pages} <= set(links) | {"docs/shadow.md"}
