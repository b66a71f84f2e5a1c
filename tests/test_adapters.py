"""What docs and adapters import."""

import re
import subprocess
import sys
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
ROOT: Final = Path(__file__).parents[1]
SHOWN: Final = sorted(
    path
    for pattern in ("README.md", "docs/*.md", "packages/*/README.md", "examples/**/*.py", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
"""What users read and copy."""
IMPORT: Final = re.compile(r"^ *from (podium(?:\.\w+)*) import (\([^)]*\)|.*)", re.MULTILINE)


def is_public(module: str, name: str) -> bool:
    """Return whether a name is public: in the stub of a folder, or in a module at the root."""
    stub = CORE.joinpath(*module.split(".")[1:], "__init__.pyi")
    if stub.exists():
        return re.search(rf"\b{name} as {name}\b", stub.read_text("utf-8")) is not None
    return module.count(".") == 1 and not name.startswith("_") and find_spec(module) is not None


def test_docs_and_examples_import_public_names_only() -> None:
    found = [
        (path.name, module, name)
        for path in SHOWN
        for module, names in IMPORT.findall(path.read_text("utf-8"))
        for name in re.findall(r"(\w+)(?: as \w+)?", names)
    ]
    assert len(found) > 100
    assert [each for each in found if not is_public(*each[1:])] == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_knows_no_other(adapter: str) -> None:
    others = set(ADAPTERS.values()) - {ADAPTERS[adapter]}
    source = PACKAGES / adapter / "src"
    files = [path for path in source.rglob("*.py*") if path.suffix in (".py", ".pyi")]
    text = "".join(path.read_text("utf-8") for path in files)
    assert text
    assert not re.findall(rf"^\s*(?:from|import) (?:{'|'.join(others)})\b", text, re.MULTILINE)


HOSTS: Final = (
    *("langchain_core", "langgraph", "llama_index", "crewai"),
    *("autogen_core", "autogen_agentchat", "agent_framework"),
)
ALONE: Final = """
import autogen_podium, autogen_podium.agent_framework as framework
import crewai_podium, langchain_podium, llama_index_podium
for each in (autogen_podium, framework, crewai_podium, langchain_podium, llama_index_podium):
    assert set(each.__all__) <= set(dir(each))
    assert not hasattr(each, "nothing")
"""


@pytest.mark.parametrize(
    ("code", "brought"),
    [
        pytest.param(ALONE, set(), id="packages"),
        *(
            pytest.param(code, brought, id=code, marks=pytest.mark.long)
            for code, brought in (
                ("from langchain_podium import ConductorRunnable, as_worker", {"langchain_core"}),
                ("from langchain_podium import *", {"langchain_core", "langgraph"}),
                ("from llama_index_podium import ConductorQueryEngine, as_worker", {"llama_index"}),
                ("from autogen_podium import ConductorAgent", {"autogen_core", "autogen_agentchat"}),
                ("from autogen_podium.agent_framework import ConductorAgent, as_worker", {"agent_framework"}),
            )
        ),
    ],
)
def test_an_adapter_imports_its_own_framework_alone(code: str, brought: set[str]) -> None:
    """And that only when a name is asked for; nothing is printed or warned of."""
    told = f"{code}\nimport sys\nprint(*[name for name in {HOSTS!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=False, timeout=200
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == brought
