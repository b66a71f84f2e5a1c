"""The base class of planners that change the requests or calls of another planner."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from podium.budget import Spend
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Message


class WrappedPlanner(Planner):
    """Passes everything on to another planner. Subclasses change the request or the call.

    Args:
        planner: the other planner.
    """

    def __init__(self, planner: Planner) -> None:
        self.name, self.spelling, self.worker = planner.name, planner.spelling, planner.worker
        self.reads_cards = planner.reads_cards
        self._inner = planner

    def shown(self, request: PlanRequest) -> PlanRequest:
        """Return the request for the other planner."""
        return request

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the plan text of the other planner.

        Raises:
            PodiumError: the other planner gave no plan text.
        """
        async with aclosing(self._inner.plan(self.shown(request))) as pieces:
            async for piece in pieces:
                yield piece

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that the other planner may spend."""
        return self._inner.worst_case(self.shown(request), answer_tokens)

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that the other planner sends to its model."""
        return self._inner.messages(self.shown(request))

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._inner,)
