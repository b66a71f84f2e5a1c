"""Plans a bundle part by part, each part as a separate question."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any

from podium import Plan, Step
from podium.plan_text import parse_plan, write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Message
from podium.types.references import literal
from podium.usage import Usage
from podium_evals.recorded import Bundle, Part, content_key


class PartByPart(Planner):
    """Plans a bundle with a planner for single questions: a plan for each part, then a step that joins them.

    In the plan for a part, a step with an empty access list asks the part's question.

    Args:
        planner: plans single questions.
        bundles: all bundles that may be planned.
        join: the number of the worker `JoinParts` in the pool.
    """

    def __init__(self, planner: Planner, bundles: Iterable[Bundle], join: int) -> None:
        self.name = planner.name
        self.reads_cards = planner.reads_cards
        self._planner = planner
        self._bundles: Mapping[str, Bundle] = {content_key(bundle.text): bundle for bundle in bundles}
        self._join = join

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write the plan.

        Raises:
            PlannerError: the planner cannot plan a part.
            PlanInvalid: the planner's text for a part is not a plan.
        """
        bundle = self._bundles[content_key(request.query[-1].text)]
        texts = [await self._of_part(part, request) for part in bundle.parts]
        workers = [card.name for card in request.cards]
        plans = [parse_plan(each.text, workers=workers, max_steps=request.max_steps) for each in texts]
        costs = [each.cost for each in texts if each.cost is not None]
        yield PlanText(
            text=write_plan(bundle_plan(bundle, plans, self._join), "rows"),
            usage=Usage.total(each.usage for each in texts),
            cost=sum(costs) if len(costs) == len(texts) else None,
        )

    async def _of_part(self, part: Part, request: PlanRequest) -> PlanText:
        query = (Message("user", part.question.text),)
        asked = replace(request, query=query, context=(), shows_question=True, stream=False)
        async with aclosing(self._planner.plan(asked)) as pieces:
            found = [piece async for piece in pieces if isinstance(piece, PlanText)]
        return found[-1]

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._planner,)


def bundle_plan(bundle: Bundle, plans: Iterable[Plan], join: int) -> Plan:
    """Return one plan for a bundle, made of a plan for each part, and a step that joins the answers.

    Args:
        bundle: the bundle.
        plans: a plan for the question of each part. In it, a step with an empty access list asks the
            question.
        join: the number of the worker `JoinParts` in the pool.
    """
    steps: list[Step] = []
    ends: list[int] = []
    for part, plan in zip(bundle.parts, plans, strict=True):
        steps += _moved(plan.calls, part, ends, len(steps))
        ends.append(len(steps) - 1)
    return Plan((*steps, Step(join, "Join the answers.", tuple(ends))))


def _moved(steps: Iterable[Step], part: Part, ends: Sequence[int], offset: int) -> list[Step]:
    """Return the steps of a part's plan, renumbered for the plan of the bundle."""
    subtask = literal(part.question.text)
    needed: tuple[int, ...] = ()
    if part.needs is not None:
        before, after = map(literal, part.around)
        needed = (ends[part.needs],)
        subtask = f"{before}{{{{{needed[0]}}}}}{after}"
    return [
        replace(step, access=tuple(number + offset for number in step.access))
        if step.access
        else Step(step.worker, subtask, needed)
        for step in steps
    ]
