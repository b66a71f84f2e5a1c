"""The distribution: its version is the module's, and importing it does not import Inspect."""

import subprocess
import sys
from importlib.metadata import version

import inspect_podium


def test_the_version_is_the_modules_own() -> None:
    told = version("inspect-podium")
    assert inspect_podium.__version__ == told == version("podium-conductor")


def test_importing_it_does_not_import_inspect() -> None:
    code = (
        "import sys, inspect_podium; assert 'inspect_ai' not in sys.modules; "
        "inspect_podium.conductor_model; assert 'inspect_ai' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
