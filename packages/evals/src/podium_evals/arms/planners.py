"""Arms that are planners: a conductor runs each query over recorded workers."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any

import anyio

from podium import Conductor, Plan, Step
from podium.budget import Spend
from podium.errors import PlannerError
from podium.execution import Retry
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Message
from podium.types.references import literal
from podium.workers import Pool, Worker
from podium_evals.arms.arm import Answered, Arm, Asked, Fold
from podium_evals.arms.run_scores import ASK, answered, looked_up, unrecorded
from podium_evals.errors import ArmUnfit, Unrecorded
from podium_evals.recorded import (
    Bundle,
    FirstAgreeing,
    JoinParts,
    Longest,
    Question,
    Recordings,
    Vote,
    content_key,
    recorded_pool,
)


class WrappedPlanner(Planner):
    """Passes everything on to another planner. Subclasses change the request or the call."""

    def __init__(self, planner: Planner) -> None:
        self.name, self.spelling, self.worker = planner.name, planner.spelling, planner.worker
        self.reads_cards = planner.reads_cards
        self._inner = planner

    def shown(self, request: PlanRequest) -> PlanRequest:
        """Return the request for the other planner."""
        return request

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the plan text of the other planner."""
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

    @abstractmethod
    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return the planner, fitted on `fold.train`. The fold has no scores of `fold.test`."""

    def retry(self, fold: Fold) -> Retry | None:  # noqa: ARG002 - for arms that repair empty answers
        """Return which worker is asked after an empty answer; `None` if empty answers stay."""
        return None

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Plan and run each query."""
        for seed in seeds:
            retry = self.retry(fold)
            pool = arm_pool(fold, seed, empty_fails=retry is not None)
            planner = self.planner(fold.blind, seed)
            conductor = Conductor(planner, pool, show_question=not fold.bundles, retry=retry)
            async with conductor:
                for start in range(0, len(fold.asked), self.at_once):
                    queries = fold.asked[start : start + self.at_once]
                    for query, found in zip(queries, await self._ask(conductor, queries, fold), strict=True):
                        yield Asked(query=query, seed=seed, answered=found)

    async def _ask(
        self, conductor: Conductor, queries: Sequence[Question | Bundle], fold: Fold
    ) -> Sequence[Answered]:
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
    """Return the pool of an arm's runs: the recorded workers, and the reducers."""
    reducers: list[Worker] = [Vote(), FirstAgreeing(), Longest()]
    if fold.bundles:
        reducers.append(JoinParts())
    return [*recorded_pool(fold.test, seed=seed, empty_fails=empty_fails), *reducers]


class ChoosingArm(PlannerArm):
    """An arm in which a function chooses the plan for each question, and for each part of a bundle.

    The results of the simplest plans are looked up in the recording. A conductor runs all other plans.
    """

    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return a planner that asks `chooser`."""
        return _ChosenPlan(fold, self.chooser(fold, seed))

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Plan each query, and look up or compute the result of the plan."""
        if fold.bundles:
            async for asked in super().answer(fold, seeds):
                yield asked
            return
        blind = {question.key: question for question in fold.blind.test.questions}
        for seed in seeds:
            retry = self.retry(fold)
            pool = Pool(arm_pool(fold, seed, empty_fails=retry is not None))
            choose = self.chooser(fold.blind, seed)
            async with Conductor(_ChosenPlan(fold.blind, choose), pool, retry=retry) as conductor:
                for question in fold.test.questions:
                    try:
                        found = looked_up(choose(blind[question.key]), question, pool, fold.test, retry)
                    except Unrecorded as error:
                        found = Answered(score=None, unrecorded=str(error))
                    if found is None:
                        found = await self._run(conductor, question, fold.test)
                    yield Asked(query=question, seed=seed, answered=found)

    @abstractmethod
    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the function that chooses plans, fitted on `fold.train`.

        In these plans, a step with an empty access list has the subtask `ASK` and asks the whole question.
        """


class _ChosenPlan(Planner):
    """Writes the plan which a function chooses: for a question, or for each part of a bundle."""

    name = "chosen"
    reads_cards = False

    def __init__(self, fold: Fold, choose: Callable[[Question], Plan]) -> None:
        self._queries = {content_key(query.text): query for query in fold.asked}
        self._choose = choose

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        query = self._queries[content_key(request.query[-1].text)]
        try:
            if isinstance(query, Bundle):
                plans = [self._choose(part.question) for part in query.parts]
                plan = _joined(query, plans, join=len(request.cards) - 1)
            else:
                plan = self._choose(query)
        except Unrecorded as error:
            raise PlannerError(f"the recording has no answers for the plan: {error}") from error
        yield PlanText(text=write_plan(plan, "rows"), cost=0.0)


def _joined(bundle: Bundle, plans: Iterable[Plan], join: int) -> Plan:
    """Return one plan for a bundle, made of a plan for each part, and a step that joins the answers."""
    steps: list[Step] = []
    ends: list[int] = []
    for part, plan in zip(bundle.parts, plans, strict=True):
        subtask, needed, offset = literal(part.question.text), tuple[int, ...](), len(steps)
        if part.needs is not None:
            before, after = map(literal, part.around)
            needed = (ends[part.needs],)
            subtask = f"{before}{{{{{needed[0]}}}}}{after}"
        steps += [
            replace(step, access=tuple(number + offset for number in step.access))
            if step.access
            else Step(step.worker, subtask, needed)
            for step in plan.calls
        ]
        ends.append(len(steps) - 1)
    return Plan((*steps, Step(join, "Join the answers.", tuple(ends))))


_OF_QUESTION = f"""

The workers' answers are recorded. A worker has an answer to the whole question and to nothing else. So \
give each model the subtask "{ASK}" and an empty access list. To choose among the answers of several \
steps, end with a step of vote, first-agreeing or longest that has those steps on its access list."""
_OF_BUNDLE = """

The workers' answers are recorded. A worker has an answer to one whole part and to nothing else. So ask \
each part in a step of its own, with nothing but the text of the part as the subtask: {{part_1}} stands \
for the text of part 1, and so on. Write out a part that needs the answer to another one, with {{n}} in \
place of the missing number, n being the step of that answer. End with a step of join-parts that has the \
steps of all parts on its access list, in the order of the parts."""


class GivenPlanner(PlannerArm):
    """An arm for any `podium` planner, such as a chat model on an OpenAI-compatible server.

    A recording has answers only to the exact texts of its questions, but planners often rephrase questions. A
    planner that was not trained on recordings should know this rule; otherwise most of its steps are
    unrecorded.
    """

    at_once = 8

    def __init__(
        self, name: str, planner: Planner | Callable[[Fold], Planner], *, is_told: bool = True
    ) -> None:
        super().__init__(name)
        self._planner = planner
        self._is_told = is_told

    def planner(self, fold: Fold, seed: int) -> Planner:  # noqa: ARG002 - the interface has both parameters
        """Return the planner."""
        planner = self._planner if isinstance(self._planner, Planner) else self._planner(fold)
        return told_planner(planner, of_bundles=bool(fold.bundles)) if self._is_told else planner


def told_planner(planner: Planner, *, of_bundles: bool) -> Planner:
    """Return a planner whose prompt says which subtasks recorded workers can answer.

    A planner without a model is returned as it is: it would read the text as a part of the question.
    """
    return planner if planner.card is None else _Told(planner, _OF_BUNDLE if of_bundles else _OF_QUESTION)


class _Told(WrappedPlanner):
    """A planner that appends a text to the question for another planner."""

    def __init__(self, planner: Planner, text: str) -> None:
        super().__init__(planner)
        self._text = text

    def shown(self, request: PlanRequest) -> PlanRequest:
        *before, question = request.query
        return replace(request, query=(*before, Message("user", question.text + self._text)))
