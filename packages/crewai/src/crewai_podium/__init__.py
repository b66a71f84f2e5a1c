"""Podium for CrewAI: a manager that plans for a crew, an LLM that plans, agents and crews as workers.

What CrewAI calls things is kept: a crew is kicked off, an agent has a role, an LLM is called.
Each name below is imported when it is first asked for, and CrewAI with it, which on being
imported reads `.env`, writes into the home folder and takes signals over.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crewai_podium.llm import ConductorLLM
    from crewai_podium.manager import ConductorManager
    from crewai_podium.workers import as_worker

_HOMES = {
    "ConductorLLM": "crewai_podium.llm",
    "ConductorManager": "crewai_podium.manager",
    "as_worker": "crewai_podium.workers",
}

__all__ = ["ConductorLLM", "ConductorManager", "as_worker"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'crewai_podium' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
