"""A gate before another planner: what one worker can answer needs no planning."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Self

from podium.plan import Plan, Step
from podium.planners.fit import Matcher
from podium.planners.parts import split
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.spelling import write_plan

MAX_CHARS = 200
"""Longest question that is sent on directly, in characters."""


class DirectPlanner(Planner):
    """Sends a short question of one part straight to the one worker whose card fits it.

    All else goes to the planner behind it: long questions and those of several parts or
    several lines, attachments, repairs and further rounds, and questions that no worker's
    card, or more than one's, fits best. The gate calls no model.

    Args:
        planner: whom to ask for all else.
    """

    def __init__(self, planner: Planner) -> None:
        self.name = f"direct {planner.name}"
        self._planner = planner

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Plan one step, or hand the request on.

        Raises:
            PodiumError: there is no plan text, and why.
        """
        worker = _only_worker(request)
        if worker is None:
            async with aclosing(self._planner.plan(request)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        subtask = f"Answer this question: {request.query[-1].text.strip()}"
        text = write_plan(Plan((Step(worker, subtask),)), "rows")
        if request.stream:
            yield text
        name = request.cards[worker].name
        reason = "the only worker" if len(request.cards) == 1 else "whose card fits it best"
        yield PlanText(text=text, why=f"one short question without parts; sent to {name!r}, {reason}")

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the order the other planner wants the workers shown in."""
        return self._planner.order(workers, run_id)

    async def __aenter__(self) -> Self:
        await self._planner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._planner.__aexit__(kind, error, traceback)


def _only_worker(request: PlanRequest) -> int | None:
    """Return the worker to answer a request that needs no planning; `None` when it may need some."""
    plain = all(isinstance(message.content, str) for message in request.query)
    question = request.query[-1].text.strip()
    if request.turns or not plain or not question or len(question) > MAX_CHARS or "\n" in question:
        return None
    if len(split(question)) > 1:
        return None
    if len(request.cards) == 1:
        return 0
    fit = Matcher(request.cards).best(question)
    return fit.worker if fit.alone else None
