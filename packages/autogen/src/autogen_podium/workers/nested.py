"""A worker that is a conductor in the clothes of an agent or a team: its run is nested in the run around it.

It knows who wears them only as something that can be dumped and paused.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

from autogen_agentchat.base import ChatAgent, Team

from podium.budget import Spend
from podium.conductor import Conductor
from podium.types import Completion
from podium.workers import Card, Request, Worker


class NestedWorker(Worker):
    """Has a conductor do the subtask, within the limits and under the policy of the run around it.

    Args:
        agent: whose conductor it is; what that remembers is neither read nor written.
        conductor: who does it.
        card: what the planner is told of it.
    """

    takes_tools = True

    def __init__(self, agent: ChatAgent | Team, conductor: Conductor, *, card: Card) -> None:
        self.agent = agent
        self.conductor = conductor
        self.card = card

    def __repr__(self) -> str:
        return f"NestedWorker({self.card.name!r})"

    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Plan and run what is asked."""
        return self.conductor.call(request)

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return what the conductor says: within a run, that it books by itself."""
        return self.conductor.worst_case(request, answer_tokens)

    def _parts(self) -> tuple[AbstractAsyncContextManager[Any], ...]:
        return (self.conductor,)
