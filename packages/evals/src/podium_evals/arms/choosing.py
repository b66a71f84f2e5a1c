"""Arms that choose a plan for each question by a function."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping

from podium import Plan
from podium.errors import PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium_evals.arms.arm import Fold
from podium_evals.arms.planner_arm import PlannerArm
from podium_evals.errors import Unrecorded
from podium_evals.recorded import Question, content_key

ASK = "Answer the question."


class ChoosingArm(PlannerArm):
    """An arm that chooses a plan for each question, and for each part of a bundle, by a function."""

    plans_parts = True

    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return a planner that asks `chooser`."""
        questions = {question.key: question for question in fold.test.questions}
        return ChosenPlan(questions, self.chooser(fold, seed))

    @abstractmethod
    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the function that chooses, fitted on `fold.train`.

        In the plans, a step without an access list asks the question, by the subtask `ASK`.
        """


class ChosenPlan(Planner):
    """Writes the plan that a function chooses for a question.

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
            PlannerError: what the plan needs was not recorded.
        """
        try:
            plan = self._choose(self._questions[content_key(request.query[-1].text)])
        except Unrecorded as error:
            raise PlannerError(f"the plan cannot be answered: {error}") from error
        yield PlanText(text=write_plan(plan, "rows"), cost=0.0)
