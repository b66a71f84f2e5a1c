"""The agents and teams inside an agent or a team of AutoGen's."""

from collections.abc import Iterator
from typing import Final

_MEMBERS: Final = ("_participants", "_team", "_wrapped_agent")
"""Where AutoGen's teams and agents keep the agents and teams inside them."""


def members_of(agent: object) -> Iterator[object]:
    """Yield an agent or a team, and all agents and teams inside it."""
    yield agent
    for name in _MEMBERS:
        members = vars(agent).get(name, ())
        for member in members if isinstance(members, list | tuple) else (members,):
            if hasattr(member, "__dict__"):
                yield from members_of(member)
