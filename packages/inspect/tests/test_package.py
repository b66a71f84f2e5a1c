"""The distribution: its version is the module's, and importing it does not import Inspect."""

import subprocess
import sys
from importlib.metadata import version

import inspect_podium


def test_it_has_the_version_of_podium_and_imports_no_inspect() -> None:
    told = version("inspect-podium")
    assert inspect_podium.__version__ == told == version("podium-conductor")
    code = (
        "import sys, inspect_podium; assert 'inspect_ai' not in sys.modules; "
        "inspect_podium.conductor_model; assert 'inspect_ai' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
