"""Arms that are planners: a conductor runs each question over recorded workers."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import Any

import anyio

from podium import Conductor, Plan
from podium.budget import Spend
from podium.errors import PlannerError
from podium.execution import Retry
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Message
from podium.workers import Pool, Worker
from podium_evals.arms.arm import Answered, Arm, Asked, Fold
from podium_evals.arms.run_scores import ASK, answered, looked_up, unrecorded
from podium_evals.errors import ArmUnfit, Unrecorded, first_failure
from podium_evals.recorded import Question, Recordings, Vote, content_key, recorded_pool


class PlannerArm(Arm):
    """An arm that is a planner: a conductor runs each question over recorded workers.

    The pool of a run has the workers in the order of `fold.test.workers`, then `Vote`.
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
        """Plan and run each question."""
        for seed in seeds:
            retry = self.retry(fold)
            pool = arm_pool(fold, seed, empty_fails=retry is not None)
            planner = self.planner(fold.blind, seed)
            async with Conductor(planner, pool, retry=retry) as conductor:
                for start in range(0, len(fold.test), self.at_once):
                    asked = fold.test.questions[start : start + self.at_once]
                    for question, found in zip(asked, await self._ask(conductor, asked, fold), strict=True):
                        yield Asked(question=question, seed=seed, answered=found)

    async def _ask(
        self, conductor: Conductor, questions: Sequence[Question], fold: Fold
    ) -> Sequence[Answered]:
        found: dict[str, Answered] = {}

        async def run(question: Question) -> None:
            found[question.key] = await self._run(conductor, question, fold.test)

        with first_failure():
            async with anyio.create_task_group() as tasks:
                for question in questions:
                    tasks.start_soon(run, question)
        return [found[question.key] for question in questions]

    async def _run(self, conductor: Conductor, question: Question, recordings: Recordings) -> Answered:
        try:
            result = await conductor.run(question.text)
        except PlannerError as error:
            if error.code == "planner_unreachable":
                raise ArmUnfit(f"{self.name!r} cannot plan: {error}") from error
            missing = unrecorded(error)
            if missing is None and error.code == "planner_unusable":
                calls = sum(each.usage.total_tokens > 0 for each in error.calls)
                return Answered(score=0.0, calls=calls, tokens=error.usage.total_tokens, cost=error.cost)
            return Answered(score=None, unrecorded=str(missing or error))
        return answered(result, question, recordings)


def arm_pool(fold: Fold, seed: int, *, empty_fails: bool = False) -> list[Worker]:
    """Return the pool of an arm's runs: the recorded workers, and a vote."""
    return [*recorded_pool(fold.test, seed=seed, empty_fails=empty_fails), Vote()]


class ChoosingArm(PlannerArm):
    """An arm in which a function chooses the plan for each question.

    The results of the simplest plans are looked up in the recording. A conductor runs all other plans.
    """

    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return a planner that asks `chooser`."""
        return _ChosenPlan(fold, self.chooser(fold, seed))

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Plan each question, and look up or compute the result of the plan."""
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
                    yield Asked(question=question, seed=seed, answered=found)

    @abstractmethod
    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the function that chooses plans, fitted on `fold.train`.

        In these plans, a step with an empty access list has the subtask `ASK` and asks the whole question.
        """


class _ChosenPlan(Planner):
    """Writes the plan which a function chooses for a question."""

    name = "chosen"
    reads_cards = False

    def __init__(self, fold: Fold, choose: Callable[[Question], Plan]) -> None:
        self._questions = {question.key: question for question in fold.test.questions}
        self._choose = choose

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        try:
            plan = self._choose(self._questions[content_key(request.query[-1].text)])
        except Unrecorded as error:
            raise PlannerError(f"the recording has no answers for the plan: {error}") from error
        yield PlanText(text=write_plan(plan, "rows"), cost=0.0)


_TOLD = f"""

The workers' answers are recorded. A worker has an answer to the whole question and to nothing else. So \
give each model the subtask "{ASK}" and an empty access list. To choose among the answers of several \
steps, end with a step of vote that has those steps on its access list."""


class GivenPlanner(PlannerArm):
    """An arm for any `podium` planner, such as a chat model on an OpenAI-compatible server.

    A recording has answers only to the exact texts of its questions, but planners often rephrase questions. A
    planner that was not trained on recordings should know this rule; otherwise most of its steps are
    unrecorded.
    """

    at_once = 8

    def __init__(self, name: str, planner: Planner, *, is_told: bool = True) -> None:
        super().__init__(name)
        self._planner = planner
        self._is_told = is_told

    def planner(self, fold: Fold, seed: int) -> Planner:  # noqa: ARG002 - the interface has both parameters
        """Return the planner."""
        # A planner without a model would read the text as a part of the question.
        is_told = self._is_told and self._planner.card is not None
        return _Told(self._planner, _TOLD) if is_told else self._planner


class _Told(Planner):
    """A planner that appends a text to the question for another planner."""

    def __init__(self, planner: Planner, text: str) -> None:
        self.name, self.spelling, self.worker = planner.name, planner.spelling, planner.worker
        self.reads_cards = planner.reads_cards
        self._inner, self._text = planner, text

    def _shown(self, request: PlanRequest) -> PlanRequest:
        *before, question = request.query
        return replace(request, query=(*before, Message("user", question.text + self._text)))

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the plan text of the other planner."""
        async with aclosing(self._inner.plan(self._shown(request))) as pieces:
            async for piece in pieces:
                yield piece

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that the other planner may spend."""
        return self._inner.worst_case(self._shown(request), answer_tokens)

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that the other planner sends to its model."""
        return self._inner.messages(self._shown(request))

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._inner,)
