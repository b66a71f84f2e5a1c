"""A planner that sends simple questions directly to one worker, and others to another planner."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from podium.budget.spend import Spend
from podium.errors import ConfigError
from podium.plan_text.writer import write_plan
from podium.planners.card_matcher import best_fit
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.planners.planner_prompt import with_texts
from podium.planners.question_splitter import split
from podium.types.messages import Message
from podium.types.plan import Plan, Step
from podium.types.references import literal

MAX_CHARS = 200
"""Maximum length of a question that is sent directly to a worker, in characters."""


class DirectPlanner(Planner):
    """Sends a short question with one part to the worker whose card fits it, without a planner call.

    Other requests go to the other planner. These are long questions, and questions with several parts, lines
    or attachments. They are also repairs, further rounds, and questions that fit no card, or several cards
    equally if no worker is named for these.

    Args:
        planner: plans all other requests.
        worker: name of the worker that gets a simple question that fits several cards equally; `None` for
            the other planner.
    """

    def __init__(self, planner: Planner, worker: str | None = None) -> None:
        self.spelling = planner.spelling
        self.reads_cards = planner.reads_cards
        self.worker = planner.worker
        self.name = f"direct {planner.name}"
        self._planner = planner
        self._otherwise = worker

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield a plan with one step, or call the other planner.

        Raises:
            PodiumError: the other planner gave no plan text.
        """
        planned = self._direct(request)
        if planned is None:
            async with aclosing(self._planner.plan(request)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        if request.stream:
            yield planned.text
        yield planned

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the order in which the other planner sees the workers."""
        return self._planner.order(workers, run_id)

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that the other planner may spend; nothing for a direct question."""
        return Spend() if self._direct(request) else self._planner.worst_case(request, answer_tokens)

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that the other planner sends to its model."""
        return self._planner.messages(request)

    def _direct(self, request: PlanRequest) -> PlanText | None:
        """Return the plan with one step; `None` if the other planner must plan the request."""
        question = request.query[-1].text.strip()
        fit = best_fit(question, request.cards)
        if fit is None or not _is_simple(question, request):
            return None
        names = [card.name for card in request.cards]
        if fit.alone:
            worker, reason = fit.worker, "whose description fits it best"
        elif self._otherwise in names:
            worker, reason = names.index(self._otherwise), "the worker for simple questions"
        else:
            return None
        if len(names) == 1:
            reason = "the only worker"
        subtask = f"Answer this question: {literal(question)}{with_texts(request)}"
        text = write_plan(Plan((Step(worker, subtask),)), "rows")
        why = f"one short question without parts; sent to {names[worker]!r}, {reason}"
        return PlanText(text=text, why=why, cost=0.0)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._planner,)


def with_direct(planner: Planner, direct: bool | str, names: Sequence[str]) -> Planner:  # noqa: FBT001 - an option
    """Return the planner of a conductor with this `direct`, whose workers have these names.

    Raises:
        ConfigError: `direct` names another worker.
    """
    if isinstance(direct, str) and direct not in names:
        raise ConfigError(f"direct names {direct!r}; the workers are {', '.join(names)}")
    return DirectPlanner(planner, direct if isinstance(direct, str) else None) if direct else planner


def _is_simple(question: str, request: PlanRequest) -> bool:
    plain = all(isinstance(message.content, str) for message in request.query)
    short = 0 < len(question) <= MAX_CHARS and "\n" not in question
    return plain and short and not request.turns and len(split(question)) == 1
