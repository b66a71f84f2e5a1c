"""The direction of imports, the size of modules, and what `podium` shows to the world."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import podium

ROOT = Path(podium.__file__).parent

AGENTS = (Path(__file__).parents[2] / "AGENTS.md").read_text("utf-8")
ORDER = (*re.findall(r"^    (\w+)/? {2,}", AGENTS, re.MULTILINE), "__main__")
"""Folders and root modules, first to last, as `AGENTS.md` lists them."""

RANK = {name: rank for rank, name in enumerate(ORDER)}


def module_name(path: Path) -> str:
    """Return the dotted name below `podium` of a source file; the name of a package is the package's own."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in ROOT.rglob("*.py")}
FOLDERS = sorted(path.parent for path in ROOT.rglob("__init__.py"))


def behind_faces() -> dict[str, str]:
    """Return the module of each name of a face, as in `types.Plan` and `types.plan`."""
    found: dict[str, str] = {}
    for stub in ROOT.rglob("__init__.pyi"):
        face = module_name(stub.with_suffix(".py"))
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                module = f"{face}.{node.module}".removeprefix(".")
                found |= {f"{face}.{alias.name}".removeprefix("."): module for alias in node.names}
    return found


BEHIND = behind_faces()


def imported(path: Path) -> set[str]:
    """Return the modules of Podium that a file imports, anywhere in it, also through faces."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "podium":
            names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
        found |= {name.removeprefix("podium.") for name in names if name.startswith("podium.")}
    return {BEHIND.get(name, name) for name in found} & set(SOURCES)


IMPORTS = {name: imported(path) - {name} for name, path in SOURCES.items() if name}


def test_every_folder_has_a_place_in_the_order() -> None:
    assert {name.split(".")[0] for name in IMPORTS} == set(RANK)


def test_folders_import_only_from_folders_before_them() -> None:
    pairs = [(name, other) for name, others in IMPORTS.items() for other in others]
    assert [pair for pair in pairs if RANK[pair[1].split(".")[0]] > RANK[pair[0].split(".")[0]]] == []


def test_no_modules_import_each_other() -> None:
    assert list(TopologicalSorter(IMPORTS).static_order())


def test_no_name_of_a_face_is_that_of_its_module() -> None:
    """With lazy_loader before 0.6 the package would have the module under that name, once it is imported."""
    for stub in ROOT.rglob("__init__.pyi"):
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {alias.name for alias in node.names}, stub


def test_a_module_is_at_most_500_lines_long() -> None:
    assert [name for name, path in SOURCES.items() if path.read_text("utf-8").count("\n") > 500] == []


def test_every_folder_says_in_one_line_what_it_is_for() -> None:
    for folder in FOLDERS:
        purpose = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert purpose, f"{folder} has no docstring"
        assert len(purpose.splitlines()[0]) <= 110


def test_the_root_is_small() -> None:
    assert len(list(ROOT.glob("*.py"))) <= 9


def test_the_worker_seam_knows_no_run() -> None:
    assert not {name for name in IMPORTS["workers.worker"] if re.match(r"journal|policy|types\.events", name)}


def test_no_pattern_has_a_possessive_group() -> None:
    """Python before 3.11.5 loses matches of `(…)*+`; `(?>(…)*)` is the same and works."""
    wrong = [name for name, path in SOURCES.items() if re.search(r"\)[*?+]\+", path.read_text("utf-8"))]
    assert wrong == []


def test_one_module_of_core_imports_an_http_library() -> None:
    library = re.compile(r"\b(import|from) (aiohttp|httpx2?)\b")
    found = [name for name, path in SOURCES.items() if library.search(path.read_text("utf-8"))]
    assert found == ["workers.openai.http"]


def test_the_face_is_complete_sorted_and_small() -> None:
    assert list(podium.__all__) == sorted(podium.__all__)
    assert len(podium.__all__) <= 20
    for name in podium.__all__:
        assert getattr(podium, name).__name__ == name


def test_importing_is_silent_and_brings_in_no_framework() -> None:
    code = """
import os, sys, threading
before = set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else set()
import podium
foreign = {'httpx', 'httpx2', 'aiohttp', 'openai', 'langchain_core', 'langgraph', 'llama_index',
           'crewai', 'autogen_core', 'litellm', 'typer', 'rich', 'numpy', 'pydantic'}
print(sorted(foreign & set(sys.modules)), threading.active_count(),
      (set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else set()) - before)
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["[]", "1", "set()"], "")
