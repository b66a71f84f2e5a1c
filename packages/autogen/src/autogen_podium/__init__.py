"""Podium for AutoGen: a conductor as an agent, as a team, as a model client.

What AutoGen calls things is kept: a conductor is run with a task, streams messages, saves
its state, is dumped as a component; and what it directs is any agent, team, tool or model
client. Each name below is imported when it is first asked for. For Microsoft Agent
Framework there is `autogen_podium.agent_framework`, which needs the extra of that name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autogen_podium.agent import ConductorAgent
    from autogen_podium.client import ConductorChatCompletionClient
    from autogen_podium.team import ConductorTeam

_HOMES = {
    "ConductorAgent": "autogen_podium.agent",
    "ConductorChatCompletionClient": "autogen_podium.client",
    "ConductorTeam": "autogen_podium.team",
}

__all__ = ["ConductorAgent", "ConductorChatCompletionClient", "ConductorTeam"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'autogen_podium' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
