"""A planner that looks the plan of each question up with a function."""

from collections.abc import AsyncGenerator, Callable

from podium import Plan
from podium.errors import PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium_evals.errors import Unrecorded
from podium_evals.recorded import Question, Recordings


class ChosenPlan(Planner):
    """Writes the plan that a function chooses for a recorded question.

    Args:
        recordings: where the questions are looked up.
        choose: returns the plan for a question.
    """

    name = "chosen"
    reads_cards = False

    def __init__(self, recordings: Recordings, choose: Callable[[Question], Plan]) -> None:
        self._recordings = recordings
        self._choose = choose

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write the plan.

        Raises:
            PlannerError: the question was not recorded, or what its plan needs was not.
        """
        question = self._recordings.find(request.query[-1].text)
        if question is None:
            raise PlannerError("the question was not recorded", code="planner_refused")
        try:
            plan = self._choose(question)
        except Unrecorded as error:
            raise PlannerError(f"the plan cannot be answered: {error}") from error
        yield PlanText(text=write_plan(plan, "rows"), cost=0.0)
