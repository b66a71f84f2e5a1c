"""The distribution: its version is the module's, and importing it imports no SDK."""

import subprocess
import sys
from importlib.metadata import version

import openai_agents_podium


def test_it_has_the_version_of_podium_and_imports_no_sdk() -> None:
    told = version("openai-agents-podium")
    assert openai_agents_podium.__version__ == told == version("podium-conductor")
    code = (
        "import sys, openai_agents_podium; "
        "assert not {'agents', 'openai'} & sys.modules.keys(); "
        "openai_agents_podium.ConductorModel; assert 'agents' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
