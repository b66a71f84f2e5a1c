"""What importing the package brings in: nothing that nobody asked for."""

import subprocess
import sys

import pytest


@pytest.mark.long
@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("lambda name: '1.2.15'", "langgraph 1.2.15 runs finished steps again"),
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
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told in run.stdout
    assert ("'langchain-podium[langgraph]'" in run.stdout) == bool(told)
