"""Podium for Microsoft Agent Framework, AutoGen's successor: a conductor as an agent; agents as workers.

Requires the extra `agent-framework`. A name is imported when it is first used.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import lazy_loader

from podium.errors import install_hint

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ImportError as error:
        raise ImportError(f"{_installed()}: {install_hint('autogen-podium[agent-framework]')}") from error


def _installed() -> str:
    try:
        return f"agent-framework-core {version('agent-framework-core')} lacks a name that Podium needs"
    except PackageNotFoundError:
        return "agent-framework-core is not installed"
