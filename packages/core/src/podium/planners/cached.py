"""A planner that remembers what another planned."""

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from hashlib import sha256
from types import TracebackType
from typing import Self

from podium.errors import ConfigError, PlanError
from podium.parse import parse_plan
from podium.planners.planner import Planner, PlanRequest, PlanText


class CachedPlanner(Planner):
    """Asks another planner only for what it has not planned before.

    Requests are the same when all that a planner may look at is: the conversation, the
    cards in their order, the number of steps, what was said to earlier plans. A hit costs
    nothing. Remembered are whole texts that hold a plan; one that was cut off or cannot be
    read is asked for anew. Requests that run at the same time each ask the planner.

    Args:
        planner: whom to ask.
        size: how many texts to remember; the one unused for longest is forgotten first.

    Raises:
        ConfigError: `size` is below 1.
    """

    def __init__(self, planner: Planner, *, size: int = 1024) -> None:
        if size < 1:
            raise ConfigError(f"size {size} must be 1 or more")
        self.name = f"cached {planner.name}"
        self._planner = planner
        self._size = size
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Plan, or remember.

        Raises:
            PodiumError: there is no plan text, and why.
        """
        key = _key(self._planner.name, request)
        known = self._texts.get(key)
        if known is not None:
            self._texts.move_to_end(key)
            if request.stream:
                for line in known.splitlines(keepends=True):
                    yield line
            yield PlanText(text=known, why="the same question and pool were planned before")
            return
        async with aclosing(self._planner.plan(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText) and _holds_plan(piece, request):
                    self._remember(key, piece.text)
                yield piece

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the order the other planner wants the workers shown in."""
        return self._planner.order(workers, run_id)

    def _remember(self, key: str, text: str) -> None:
        self._texts[key] = text
        self._texts.move_to_end(key)
        if len(self._texts) > self._size:
            self._texts.popitem(last=False)

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


def _key(planner: str, request: PlanRequest) -> str:
    """Return a digest of all of a request that bears on its plan: not its deadline, nor who reads along."""
    content = {
        "planner": planner,
        "query": [message.to_wire() for message in request.query],
        "cards": [
            asdict(card) | {"parts": sorted(card.parts), "labels": sorted(card.labels)}
            for card in request.cards
        ],
        "max_steps": request.max_steps,
        "turns": [asdict(turn) for turn in request.turns],
        "may_keep": request.may_keep,
        "shows_question": request.shows_question,
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _holds_plan(written: PlanText, request: PlanRequest) -> bool:
    if written.finish_reason != "stop":
        return False
    names = [card.name for card in request.cards]
    try:
        plan = parse_plan(written.text, workers=names, max_steps=request.max_steps)
    except PlanError:
        return False
    return bool(plan.steps) or request.may_keep
