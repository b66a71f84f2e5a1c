"""Podium for Microsoft Agent Framework, AutoGen's successor: a conductor as an agent; agents as workers.

Needs the extra `agent-framework`. Each name below is imported when it is first asked for.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autogen_podium.agent_framework.agent import ConductorAgent
    from autogen_podium.agent_framework.workers import as_planner, as_worker

_HOMES = {
    "ConductorAgent": "autogen_podium.agent_framework.agent",
    "as_planner": "autogen_podium.agent_framework.workers",
    "as_worker": "autogen_podium.agent_framework.workers",
}

__all__ = ["ConductorAgent", "as_planner", "as_worker"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'autogen_podium.agent_framework' has no attribute {name!r}")
    try:
        found = getattr(import_module(_HOMES[name]), name)
    except ImportError as error:
        install = "pip install './packages/autogen[agent-framework]' in a clone of Podium"
        raise ImportError(f"{_installed()}: {install}") from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def _installed() -> str:
    try:
        return f"agent-framework-core {version('agent-framework-core')} lacks what this needs"
    except PackageNotFoundError:
        return "agent-framework-core is not installed"
