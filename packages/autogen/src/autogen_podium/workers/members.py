"""The agents, teams and managers of teams inside an agent or a team of AutoGen's."""

from collections.abc import Iterator
from typing import Final

_MEMBERS: Final = ("_participants", "_team", "_wrapped_agent")
"""Where AutoGen's teams and agents keep the agents and teams inside them."""


def members_of(agent: object) -> Iterator[object]:
    """Yield an agent or a team, and all agents, teams and managers of teams inside it.

    A team makes its manager at its first run, from what the team holds then.
    """
    yield agent
    yield from _managers(agent)
    for name in _MEMBERS:
        members = vars(agent).get(name, ())
        for member in members if isinstance(members, list | tuple) else (members,):
            if hasattr(member, "__dict__"):
                yield from members_of(member)


def _managers(team: object) -> Iterator[object]:
    """Yield the manager of a team; nothing where it is not made yet, or is in another process."""
    agents = getattr(vars(team).get("_runtime"), "_instantiated_agents", {})
    for agent_id, agent in agents.items():
        if agent_id.type == vars(team).get("_group_chat_manager_topic_type"):
            yield agent
