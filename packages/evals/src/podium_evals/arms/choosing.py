"""Arms in which a function chooses the plan for each question."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

from podium import Conductor, Plan
from podium.errors import PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.workers import Pool
from podium_evals.arms.arm import Answered, Asked, Fold
from podium_evals.arms.looked_up import ASK, looked_up
from podium_evals.arms.planner_arm import PlannerArm, arm_pool
from podium_evals.errors import Unrecorded
from podium_evals.recorded import Question, content_key

__all__ = ["ASK", "ChoosingArm", "ChosenPlan"]


class ChoosingArm(PlannerArm):
    """An arm in which a function chooses the plan for each question, and for each part of a bundle.

    The results of the simplest plans are looked up in the recording. A conductor runs all other plans.
    """

    plans_parts = True

    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return a planner that asks `chooser`."""
        questions = {question.key: question for question in fold.test.questions}
        return ChosenPlan(questions, self.chooser(fold, seed))

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Plan each query, and look up or compute the result of the plan.

        Raises:
            ArmUnfit: the function cannot be fitted.
        """
        if fold.bundles:
            async for asked in super().answer(fold, seeds):
                yield asked
            return
        blind = {question.key: question for question in fold.blind.test.questions}
        for seed in seeds:
            retry = self.retry(fold)
            pool = Pool(arm_pool(fold, seed, empty_fails=retry is not None))
            choose = self.chooser(fold.blind, seed)
            async with Conductor(ChosenPlan(blind, choose), pool, retry=retry) as conductor:
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


class ChosenPlan(Planner):
    """A planner that writes the plan which a function chooses for a question.

    Args:
        questions: the questions by their key.
        choose: returns the plan for a question.
    """

    name = "chosen"
    reads_cards = False

    def __init__(self, questions: Mapping[str, Question], choose: Callable[[Question], Plan]) -> None:
        self._questions = questions
        self._choose = choose

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write the plan.

        Raises:
            PlannerError: the plan needs an answer that was not recorded.
        """
        try:
            plan = self._choose(self._questions[content_key(request.query[-1].text)])
        except Unrecorded as error:
            raise PlannerError(f"the recording has no answers for the plan: {error}") from error
        yield PlanText(text=write_plan(plan, "rows"), cost=0.0)
