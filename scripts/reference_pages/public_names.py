"""One page for each public module: every public name, with its signature and its docstring."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
INTERNAL = {"podium.cli", "podium.resume", "podium.prompts", "podium.secrets"}
"""Folders whose names are for Podium's own modules."""


def public_names() -> dict[str, list[str]]:
    """Return the public names of each public module, from its stub; in sorted order."""
    found = {"podium.errors": _error_names(ROOT / "packages/core/src/podium/errors.py")}
    for stub in sorted(ROOT.glob("packages/*/src/*/**/__init__.pyi")):
        source = next(parent for parent in stub.parents if parent.name == "src")
        module = ".".join(stub.parent.relative_to(source).parts)
        names = _exported(stub)
        if names and module not in INTERNAL:
            found[module] = names
    return dict(sorted(found.items()))


def module_page(module: str, names: list[str]) -> str:
    """Return the page of one module, in Markdown; mkdocstrings fills in the docstrings."""
    blocks = "\n\n".join(f"::: {module}.{name}" for name in names)
    return f"# {module}\n\n{blocks}\n"


def _exported(stub: Path) -> list[str]:
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return sorted(alias.asname for node in imports for alias in node.names if alias.asname)


def _error_names(module: Path) -> list[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
