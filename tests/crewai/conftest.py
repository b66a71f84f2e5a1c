"""What CrewAI does to a process on being imported is done here once, and into a folder of its own."""

import os
import warnings
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import pytest

_HOME = mkdtemp(prefix="crewai-")
os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "XDG_DATA_HOME": f"{_HOME}/data",
}
with patch.dict(os.environ, HOME=_HOME), warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports itself
    import crewai  # noqa: F401 - what it writes, it writes there

_OLD = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:crewai\.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let CrewAI use what it has deprecated itself: its agents do, on being made."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(_OLD)
