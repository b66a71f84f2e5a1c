"""A worker for an agent, a team or a model client that is a conductor."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

from autogen_agentchat.base import ChatAgent, Team
from autogen_core.models import ChatCompletionClient

from podium.budget import Spend
from podium.conductor import Conductor
from podium.types import Completion
from podium.workers import Card, Request, Worker


class NestedWorker(Worker):
    """Runs a nested conductor within the limits and the policy of the outer run.

    Args:
        face: the agent, team or client of the nested conductor. Its memory is not used. The worker keeps this
            object so that it can be closed.
        conductor: its conductor.
        card: the worker's card.
    """

    takes_tools = True
    nests = True

    def __init__(
        self, face: ChatAgent | Team | ChatCompletionClient, conductor: Conductor, *, card: Card
    ) -> None:
        self.face = face
        self.conductor = conductor
        self.card = card
        self.acts = conductor.acts

    def __repr__(self) -> str:
        return f"NestedWorker({self.card.name!r})"

    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Plan and run the subtask."""
        return self.conductor.call(request)

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return the worst case of the conductor: `None` within a run, because it reserves its own calls."""
        return self.conductor.worst_case(request, answer_tokens)

    def _parts(self) -> tuple[AbstractAsyncContextManager[Any], ...]:
        return (self.conductor,)
