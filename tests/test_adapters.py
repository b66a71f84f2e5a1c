"""What all adapters keep to: they import public faces of Podium, each name from where it is public."""

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

import podium

CORE: Final = Path(podium.__file__).parent
PACKAGES: Final = Path(__file__).parents[1] / "packages"
ADAPTERS: Final = {
    "langchain": "langchain_podium",
    "llamaindex": "llama_index_podium",
    "crewai": "crewai_podium",
    "autogen": "autogen_podium",
    "openai-agents": "openai_agents_podium",
}
PARTS: Final = ADAPTERS | {"evals": "podium_evals", "server": "podium_server", "shadow": "podium_shadow"}
"""Packages that build on the core."""


def imports(adapter: str) -> Iterator[tuple[str, str, str]]:
    """Yield the file, the module and the name of each import from Podium's core in a package."""
    source = PACKAGES / adapter / "src" / PARTS[adapter]
    for path in sorted(source.rglob("*.py")):
        where = str(path.relative_to(source))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "podium":
                for name in node.names:
                    yield where, node.module or "", name.name
            elif isinstance(node, ast.Import):
                for name in node.names:
                    if name.name.split(".")[0] == "podium":
                        yield where, name.name, ""


def is_public(module: str, name: str) -> bool:
    """Return whether a name is public: in the stub of a folder, or in a module at the root."""
    stub = CORE.joinpath(*module.split(".")[1:], "__init__.pyi")
    if stub.exists():
        return re.search(rf"\b{name} as {name}\b", stub.read_text("utf-8")) is not None
    return module.count(".") == 1 and not name.startswith("_") and find_spec(module) is not None


@pytest.mark.parametrize("adapter", PARTS)
def test_an_adapter_imports_public_faces_only(adapter: str) -> None:
    """An internal module may change in any release."""
    found = list(imports(adapter))
    internal = [(where, module, name) for where, module, name in found if not is_public(module, name)]
    assert found
    assert internal == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_knows_no_other(adapter: str) -> None:
    """What two adapters need is in `podium.hosts`."""
    others = set(ADAPTERS.values()) - {ADAPTERS[adapter]}
    source = PACKAGES / adapter / "src"
    files = [path for path in source.rglob("*.py*") if path.suffix in (".py", ".pyi")]
    text = "".join(path.read_text("utf-8") for path in files)
    assert text
    assert not re.findall(rf"^\s*(?:from|import) (?:{'|'.join(others)})\b", text, re.MULTILINE)
