"""Writes one page for each public module: every public name with its signature and docstring."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
INTERNAL = {
    "podium.cli",
    "podium.cli.drawing",
    "podium_server.http",
    "podium_server.turn",
}
"""Folders with internal names."""
MODULES = (
    "core/src/podium/a2a.py",
    "core/src/podium/errors.py",
    "core/src/podium/replay.py",
    "core/src/podium/secrets.py",
    "core/src/podium/usage.py",
    "evals/src/podium_evals/errors.py",
    "evals/src/podium_evals/tasks.py",
    "langchain/src/langchain_podium/shadow/runnable.py",
    "llamaindex/src/llama_index_podium/events.py",
    "train/src/podium_train/errors.py",
    "train/src/podium_train/warm_start.py",
)
"""Public modules that are not folders, in `packages/`; all their classes and functions are public."""


def public_names() -> dict[str, list[str]]:
    """Return the public names of each public module from its stub, sorted."""
    files = [ROOT / "packages" / module for module in MODULES]
    found = {_module_name(file.with_suffix("")): _defined(file) for file in files}
    for stub in ROOT.glob("packages/*/src/*/**/__init__.pyi"):
        names, module = _exported(stub), _module_name(stub.parent)
        if names and module not in INTERNAL:
            found[module] = names
    return dict(sorted(found.items()))


def module_page(module: str, names: list[str]) -> str:
    """Return the page of one module in Markdown; mkdocstrings adds the docstrings."""
    blocks = "\n\n".join(f"::: {module}.{name}" for name in names)
    return f"# {module}\n\n{blocks}\n"


def _exported(stub: Path) -> list[str]:
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return sorted(alias.asname for node in imports for alias in node.names if alias.asname)


def _defined(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def _module_name(path: Path) -> str:
    source = next(parent for parent in path.parents if parent.name == "src")
    return ".".join(path.relative_to(source).parts)
