"""Find the agents, teams and managers inside an AutoGen agent or team."""

from collections.abc import Iterator
from typing import Final

_MEMBERS: Final = ("_participants", "_team", "_wrapped_agent")
"""The attributes in which AutoGen's teams and agents hold their members."""


def members_of(agent: object) -> Iterator[object]:
    """Yield an agent or a team, and all agents, teams and managers of teams inside it.

    A team creates its manager at its first run, from the members that it has then.
    """
    yield agent
    yield from _managers(agent)
    for name in _MEMBERS:
        members = vars(agent).get(name, ())
        for member in members if isinstance(members, list | tuple) else (members,):
            if hasattr(member, "__dict__"):
                yield from members_of(member)


def _managers(team: object) -> Iterator[object]:
    """Yield the manager of a team, unless it does not exist yet or is in another process."""
    agents = getattr(vars(team).get("_runtime"), "_instantiated_agents", {})
    for agent_id, agent in agents.items():
        if agent_id.type == vars(team).get("_group_chat_manager_topic_type"):
            yield agent
