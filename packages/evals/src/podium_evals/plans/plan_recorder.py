"""Asks a planner to plan recorded questions, within a budget. A stopped recording can be continued."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import get_args

import anyio

from podium import Conductor
from podium.budget import Limits, Spend
from podium.budget.ledger import Ledger
from podium.budget.limits import NOTHING
from podium.errors import AnswerRefused, ConfigError, PlannerError
from podium.planners import Planner
from podium.types import Proposal, Result
from podium.types.outcome import total_cost
from podium.usage import Usage
from podium_evals.arms import Fold
from podium_evals.arms.planners import arm_pool, told_planner
from podium_evals.arms.run_scores import answered
from podium_evals.plans.budgeted_planner import BudgetedPlanner
from podium_evals.plans.plan_file import NoPlan, PlanFile, PlansAbout, RecordedPlan
from podium_evals.recorded import Bundle, Question, Recordings, content_key
from podium_evals.task_failures import first_failure

Query = Question | Bundle


@dataclass(slots=True)
class PlanSummary:
    """The counts and the usage of a recording of plans."""

    recorded: int = 0
    """Number of queries that were recorded, with a plan or without a usable plan."""
    unusable: int = 0
    """Number of recorded queries without a usable plan, or with a refusal."""
    answerable: int = 0
    """Number of recorded queries whose plan needs only recorded answers."""
    already: int = 0
    """Number of queries that were in the file before."""
    failed: Counter[str] = field(default_factory=Counter)
    """Number of queries without a plan because calls failed, by the code of the error."""
    left: int = 0
    """Number of queries that were not asked."""
    stopped: str = ""
    """Why some queries were not asked; empty if all were asked."""
    spent: Spend = NOTHING
    """The usage of all calls, including failed calls."""


class PlanRecorder:
    """Asks a planner for a plan for each query, and records the plans.

    Queries in the file are not asked again. Plans are checked and repaired as in a run. The planner sees
    the cards of the recorded workers and of the reducers, in the order of `arm_pool`.

    Args:
        file: the plans, entered.
        planner: writes the plans.
        limits: `calls`, `cost`, `input_tokens` and `output_tokens` limit all calls of this recorder together,
            `plan_steps` and `planner_seconds` limit each plan. A call is made only if its worst case fits.
        is_told: whether the planner's prompt says which subtasks recorded workers can answer.
        at_once: maximum number of plans at the same time. If this number of calls fails in a row, no further
            calls are made.
        on_plan: called after each recorded plan.

    Raises:
        ConfigError: `at_once` is below 1.
    """

    def __init__(
        self,
        file: PlanFile,
        planner: Planner,
        *,
        limits: Limits | None = None,
        is_told: bool = True,
        at_once: int = 8,
        on_plan: Callable[[RecordedPlan], object] = lambda _plan: None,
    ) -> None:
        if at_once < 1:
            raise ConfigError(f"at_once is {at_once!r}: it must be 1 or more")
        self._file = file
        self._is_told = is_told
        self._planner = planner
        most = None if planner.card is None else planner.card.concurrency
        self._at_once = min(at_once, most or at_once)
        self._on_plan = on_plan
        limits = limits or Limits()
        self._ledger = Ledger(limits, deadline=inf)
        self._of_run = Limits(plan_steps=limits.plan_steps, planner_seconds=limits.planner_seconds)
        self._failed_in_a_row = 0
        self._summary = PlanSummary()

    async def record(self, folds: Sequence[Fold]) -> PlanSummary:
        """Ask for the plans that are missing in the file.

        Args:
            folds: the folds whose queries (`asked`) are planned.

        Returns:
            The summary over all calls of this method.

        Raises:
            ConfigError: the planner cannot be used with the pool.
            RecordingInvalid: the file cannot be written.
        """
        for fold in folds:
            await self._record(fold)
        self._summary.spent = self._ledger.spent
        return self._summary

    async def _record(self, fold: Fold) -> None:
        told = told_planner(self._planner, of_bundles=bool(fold.bundles)) if self._is_told else self._planner
        planner = BudgetedPlanner(told, self._ledger)
        missing = [query for query in fold.asked if content_key(query.text) not in self._file.queries]
        self._summary.already += len(fold.asked) - len(missing)
        left = iter(missing)
        conductor = Conductor(planner, arm_pool(fold, 0), limits=self._of_run, show_question=not fold.bundles)

        async def work() -> None:
            for query in self._until_stopped(left, planner):
                await self._plan(conductor, query, fold.test)

        began = self._summary.recorded + self._summary.failed.total()
        with first_failure():
            async with conductor, anyio.create_task_group() as group:
                for _ in range(self._at_once):
                    group.start_soon(work)
        self._summary.left += len(missing) - (self._summary.recorded + self._summary.failed.total() - began)

    def _until_stopped(self, queries: Iterator[Query], planner: BudgetedPlanner) -> Iterator[Query]:
        while not self._summary.stopped:
            query = next(queries, None)
            if query is None:
                return
            yield query
            if self._failed_in_a_row >= self._at_once:
                self._summary.stopped = f"the last {self._failed_in_a_row} calls failed"
            self._summary.stopped = planner.stopped or self._summary.stopped

    async def _plan(self, conductor: Conductor, query: Query, recordings: Recordings) -> None:
        context = query.texts if isinstance(query, Bundle) else {}
        try:
            result = await conductor.run(query.text, context=context)
        except PlannerError as error:
            code = _no_plan(error)
            if code is None:
                self._note_failure(error)
                return
            await self._keep(_recorded(query, error.calls, problem=(code, str(error))))
            self._summary.unusable += 1
            return
        await self._keep(_recorded(query, result.proposals, result=result))
        self._summary.answerable += answered(result, query, recordings).score is not None

    def _note_failure(self, error: PlannerError) -> None:
        if error.code == "planner_limit":  # it was not asked
            return
        self._summary.failed[error.code] += 1
        self._failed_in_a_row += 1

    async def _keep(self, plan: RecordedPlan) -> None:
        await self._file.append(plan)
        self._failed_in_a_row = 0
        self._summary.recorded += 1
        self._on_plan(plan)


def plans_about(planner: Planner, fold: Fold, *, is_told: bool, source: str = "") -> PlansAbout:
    """Return the first line of a file of plans for a fold.

    Args:
        planner: writes the plans.
        fold: the questions that it is asked.
        is_told: whether its prompt says which plans have recorded answers.
        source: a description of the questions, for readers of the file.
    """
    workers = tuple(worker.card.name for worker in arm_pool(fold, 0))
    is_told = is_told and planner.card is not None
    return PlansAbout(planner=planner.name, workers=workers, is_told=is_told, source=source)


def _no_plan(error: PlannerError) -> NoPlan | None:
    """Return the code of a planner that answered without a usable plan; `None` for a failed call."""
    problem = error.calls[-1].problem if error.calls else None
    if error.code == "planner_refused" and (problem is None or problem.code != AnswerRefused.code):
        return None  # a wrong key or an unknown model has nothing to do with the question
    return next((code for code in get_args(NoPlan) if code == error.code), None)


def _recorded(
    query: Query,
    calls: Sequence[Proposal],
    *,
    result: Result | None = None,
    problem: tuple[NoPlan, str] | None = None,
) -> RecordedPlan:
    return RecordedPlan(
        query=content_key(query.text),
        plan=None if result is None else result.plans[0],
        text=calls[-1].text if calls else "",
        problem=problem,
        calls=sum(call.usage.total_tokens > 0 for call in calls),
        usage=Usage.total(call.usage for call in calls),
        cost=total_cost(call.cost for call in calls),
        seconds=sum(call.seconds or 0.0 for call in calls),
        asked_on=datetime.now(UTC).date(),
    )
