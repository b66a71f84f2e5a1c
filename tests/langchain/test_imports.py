"""What importing the package brings in: nothing that nobody asked for."""

import json
import subprocess
import sys

import pytest

import langchain_podium


def _modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(json.loads(done.stdout))


def test_the_package_alone_imports_nothing_of_others() -> None:
    """Not even LangChain, before something of it is used."""
    found = _modules_after("import langchain_podium")
    assert not {"langchain_core", "langgraph", "podium", "pydantic"} & found


@pytest.mark.long
def test_runnable_and_workers_need_no_langgraph() -> None:
    """Who has no graph has no LangGraph, and no client of any provider either."""
    found = _modules_after("from langchain_podium import ConductorRunnable, as_planner, as_worker")
    assert "langchain_core" in found
    assert not {"langgraph", "langchain_openai", "openai", "langchain"} & found


@pytest.mark.long
def test_no_name_of_the_face_imports_another_framework() -> None:
    """Whoever has them all has LangChain and LangGraph, and nothing besides."""
    found = _modules_after("from langchain_podium import *")
    assert {"langchain_core", "langgraph"} <= found
    others = {"llama_index", "crewai", "autogen_core", "autogen_agentchat", "agent_framework"}
    assert not others & found


@pytest.mark.long
@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("lambda name: '1.2.15'", "langgraph 1.2.15 runs finished steps again"),
        ("lambda name: '1.2'", "langgraph 1.2 runs finished steps again"),
        ("lambda name: m.distribution('podium-has-no-such-package')", "langgraph is not installed"),
        ("lambda name: '1.10.0rc1'", ""),
    ],
)
def test_a_langgraph_that_cannot_do_it_is_named(found: str, told: str) -> None:
    """With what to install, when a name that needs it is asked for."""
    code = (
        f"import importlib.metadata as m; m.version = {found}\n"
        "import langchain_podium\n"
        "try:\n    langchain_podium.conductor_node\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert told in done.stdout
    assert ("'langchain-podium[langgraph]'" in done.stdout) == bool(told)


def test_every_name_of_the_face_is_there() -> None:
    """And no other."""
    assert set(langchain_podium.__all__) <= set(dir(langchain_podium))
    for name in langchain_podium.__all__:
        assert callable(getattr(langchain_podium, name))
    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = langchain_podium.nothing
