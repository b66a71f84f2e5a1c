"""Arms that are planners: a conductor runs each query over recorded workers."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence

import anyio

from podium import Conductor
from podium.errors import PlannerError
from podium.execution import Retry
from podium.planners import Planner
from podium.workers import Worker
from podium_evals.arms.arm import Answered, Arm, Asked, Fold
from podium_evals.arms.part_by_part import PartByPart
from podium_evals.arms.run_scores import answered, unrecorded
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import (
    Bundle,
    FirstAgreeing,
    JoinParts,
    Longest,
    Question,
    Recordings,
    Vote,
    recorded_pool,
)


class PlannerArm(Arm):
    """An arm that is a planner: a conductor runs each query over recorded workers.

    The pool of a run has the workers in the order of `fold.test.workers`, then `Vote`, `FirstAgreeing` and
    `Longest`, and for bundles also `JoinParts`. Workers are shown the question; in runs of bundles, they are
    shown their subtask only.

    If the planner writes no usable plan, the question scores 0. If the planner refuses the question, the
    question is unrecorded.
    """

    at_once = 1
    """Number of runs at the same time."""
    plans_parts = False
    """Whether the planner plans single questions only. Then each part of a bundle is planned separately."""

    @abstractmethod
    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return the planner, fitted on `fold.train`. The fold has no scores of `fold.test`."""

    def retry(self, fold: Fold) -> Retry | None:  # noqa: ARG002 - for arms that repair empty answers
        """Return which worker is asked after an empty answer; `None` if empty answers stay."""
        return None

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Plan and run each query.

        Raises:
            ArmUnfit: the planner cannot be fitted, or its server does not answer.
        """
        for seed in seeds:
            retry = self.retry(fold)
            pool = arm_pool(fold, seed, empty_fails=retry is not None)
            planner = self.planner(fold.blind, seed)
            if fold.bundles and self.plans_parts:
                planner = PartByPart(planner, fold.bundles, join=len(pool) - 1)
            conductor = Conductor(planner, pool, show_question=not fold.bundles, retry=retry)
            async with conductor:
                for start in range(0, len(fold.asked), self.at_once):
                    queries = fold.asked[start : start + self.at_once]
                    for query, found in zip(queries, await self._ask(conductor, queries, fold), strict=True):
                        yield Asked(query=query, seed=seed, answered=found)

    async def _ask(
        self, conductor: Conductor, queries: Sequence[Question | Bundle], fold: Fold
    ) -> Sequence[Answered]:
        if len(queries) == 1:
            return [await self._run(conductor, queries[0], fold.test)]
        found: dict[int, Answered] = {}

        async def run(number: int, query: Question | Bundle) -> None:
            found[number] = await self._run(conductor, query, fold.test)

        try:
            async with anyio.create_task_group() as tasks:
                for number, query in enumerate(queries):
                    tasks.start_soon(run, number, query)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return [found[number] for number in range(len(queries))]

    async def _run(self, conductor: Conductor, query: Question | Bundle, recordings: Recordings) -> Answered:
        try:
            if isinstance(query, Bundle):
                result = await conductor.run(query.text, context=query.texts)
            else:
                result = await conductor.run(query.text)
        except PlannerError as error:
            if error.code == "planner_unreachable":
                raise ArmUnfit(f"{self.name!r} cannot plan: {error}") from error
            missing = unrecorded(error)
            if missing is None and error.code == "planner_unusable":
                calls = sum(each.usage.total_tokens > 0 for each in error.calls)
                return Answered(score=0.0, calls=calls, tokens=error.usage.total_tokens, cost=error.cost)
            return Answered(score=None, unrecorded=str(missing or error))
        return answered(result, query, recordings)


def arm_pool(fold: Fold, seed: int, *, empty_fails: bool = False) -> list[Worker]:
    """Return the pool of an arm's runs: the recorded workers, and the reducers.

    Args:
        fold: the fold.
        seed: the number of the samples.
        empty_fails: whether an empty answer fails its call, so that another worker is asked.
    """
    reducers: list[Worker] = [Vote(), FirstAgreeing(), Longest()]
    if fold.bundles:
        reducers.append(JoinParts())
    return [*recorded_pool(fold.test, seed=seed, empty_fails=empty_fails), *reducers]
