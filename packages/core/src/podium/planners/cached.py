"""A planner that caches the plans of another planner."""

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import asdict, replace
from datetime import date
from hashlib import sha256
from typing import Any

from podium.budget.spend import Spend
from podium.errors import ConfigError, PlanError
from podium.plan_text.parser import parse_plan
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.types.messages import Message
from podium.workers.worker import Worker


class CachedPlanner(Planner):
    """Caches the plans of another planner.

    Two requests are the same if they differ only in `max_tokens`, `deadline`, `stream`
    and `middleware`. A cache hit costs nothing. Only complete texts with a valid plan are cached. If equal
    requests run at the same time, each request calls the planner.

    Args:
        planner: writes the plans.
        size: maximum number of plans in the cache; the least recently used plan is removed first.

    Raises:
        ConfigError: `size` is below 1.
    """

    def __init__(self, planner: Planner, *, size: int = 1024) -> None:
        if size < 1:
            raise ConfigError(f"size {size} must be 1 or more")
        self.spelling = planner.spelling
        self.reads_cards = planner.reads_cards
        self.worker = planner.worker
        self.name = f"cached {planner.name}"
        self._planner = planner
        self._size = size
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the cached plan, or call the other planner.

        Raises:
            PodiumError: the other planner gave no plan text.
        """
        key = _key(request)
        known = self._texts.get(key)
        if known is not None:
            self._texts.move_to_end(key)
            if request.stream:
                yield known
            yield PlanText(text=known, why="the plan was cached for the same question and pool", cost=0.0)
            return
        async with aclosing(self._planner.plan(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText) and _holds_plan(piece, request):
                    self._texts[key] = piece.text
                    if len(self._texts) > self._size:
                        self._texts.popitem(last=False)
                yield piece

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the order in which the other planner sees the workers."""
        return self._planner.order(workers, run_id)

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that the other planner may spend; nothing for a cache hit."""
        return Spend() if _key(request) in self._texts else self._planner.worst_case(request, answer_tokens)

    def warnings(self, workers: Sequence[Worker]) -> Sequence[str]:
        """Return the warnings of the other planner."""
        return self._planner.warnings(workers)

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that the other planner sends to its model."""
        return self._planner.messages(request)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._planner,)


def _key(request: PlanRequest) -> str:
    content = asdict(replace(request, max_tokens=None, deadline=None, stream=True, middleware=None))
    return sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> object:
    return value.isoformat() if isinstance(value, date) else sorted(value)


def _holds_plan(written: PlanText, request: PlanRequest) -> bool:
    names = [card.name for card in request.cards]
    try:
        plan = parse_plan(written.text, workers=names, max_steps=request.max_steps)
    except PlanError:
        return False
    return written.finish_reason == "stop" and (bool(plan.steps) or request.may_keep)
