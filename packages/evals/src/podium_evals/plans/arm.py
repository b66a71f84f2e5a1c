"""An arm that runs recorded plans of a prompted planner or of a trained conductor."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace

from podium import Conductor, Plan
from podium.errors import PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium_evals.arms import Answered, Asked, Fold, PlannerArm
from podium_evals.errors import ArmUnfit
from podium_evals.plans.plan_file import Plans, RecordedPlan
from podium_evals.recorded import Bundle, Question, Recordings, content_key


class RecordedPlansArm(PlannerArm):
    """An arm that reads its plans from a file.

    The plans are run over recorded workers. A question is unrecorded if it has no plan, or if its plan needs
    an answer that was not recorded. If the planner wrote no usable plan, the question scores 0. The calls,
    tokens, cost and time of the planner are added to those of the workers.

    Args:
        name: the name in tables.
        plans: the plans.
    """

    def __init__(self, name: str, plans: Plans) -> None:
        super().__init__(name)
        self._plans = plans

    def planner(self, fold: Fold, seed: int) -> Planner:  # noqa: ARG002 - the interface has both parameters
        """Return a planner that reads the plans."""
        return _Reader(self._plans)

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Run the plan of each query.

        Raises:
            ArmUnfit: there is no plan for any of the queries.
        """
        if not any(content_key(query.text) in self._plans.of_query for query in fold.asked):
            raise ArmUnfit(
                f"none of its {len(self._plans.of_query)} plans is for a question of this comparison: "
                f"use the same split, seed, pool and number of bundles for recording and comparing"
            )
        async for asked in super().answer(fold, seeds):
            yield asked

    async def _run(self, conductor: Conductor, query: Question | Bundle, recordings: Recordings) -> Answered:
        plan = self._plans.of_query.get(content_key(query.text))
        if plan is None:
            return Answered(score=None, unrecorded=f"no plan was recorded for {query.id!r}")
        if plan.problem is not None:
            code, message = plan.problem
            is_unusable = code == "planner_unusable"
            found = Answered(
                score=0.0 if is_unusable else None, latency_s=0.0, unrecorded="" if is_unusable else message
            )
        else:
            found = await super()._run(conductor, query, recordings)
        return _with_planner(found, plan)


class _Reader(Planner):
    """A planner that returns the recorded plan of a query, with the workers' numbers in the pool."""

    reads_cards = False

    def __init__(self, plans: Plans) -> None:
        self.name = plans.about.planner
        self._plans = plans

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        plan = self._plans.of_query[content_key(request.query[-1].text)].plan
        assert plan is not None  # queries without a plan are not run
        names = [card.name for card in request.cards]
        steps = []
        for step in plan.calls:
            name = self._plans.about.workers[step.worker]
            if name not in names:
                told = f"the plan needs the worker {name!r}, which is not in this pool"
                raise PlannerError(told, code="planner_refused")
            steps.append(replace(step, worker=names.index(name), label=None))
        yield PlanText(text=write_plan(Plan(tuple(steps)), "rows"), cost=0.0)


def _with_planner(found: Answered, plan: RecordedPlan) -> Answered:
    """Return the answer with the calls, tokens, cost and time of the planner."""
    known_time = found.latency_s is not None and plan.seconds is not None
    return replace(
        found,
        calls=found.calls + plan.calls,
        tokens=None if found.tokens is None else found.tokens + plan.usage.total_tokens,
        cost=None if found.cost is None or plan.cost is None else found.cost + plan.cost,
        latency_s=found.latency_s + plan.seconds if known_time else None,  # type: ignore[operator]
    )
