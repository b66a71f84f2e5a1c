"""Arms that choose a plan for each question by a function, and for each part of a bundle."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping

from podium import Plan, Step
from podium.errors import PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import literal
from podium_evals.arms.arm import Fold
from podium_evals.arms.planner_arm import PlannerArm
from podium_evals.errors import Unrecorded
from podium_evals.recorded import Bundle, Part, Question, content_key

ASK = "Answer the question."


class ChoosingArm(PlannerArm):
    """An arm that chooses a plan for each question by a function.

    Of a bundle it plans each part as a question of its own, and joins the answers. So a single worker is
    called once for each part.
    """

    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return a planner that asks `chooser`."""
        choose = self.chooser(fold, seed)
        join = len(fold.test.workers) + 3  # the reducers of an arm's pool stand before it

        def plan(query: Question | Bundle) -> Plan:
            return bundle_plan(query, choose, join) if isinstance(query, Bundle) else choose(query)

        return ChosenPlan({content_key(query.text): query for query in fold.asked}, plan)

    @abstractmethod
    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the function that chooses, fitted on `fold.train`.

        In the plans, a step that asks the question has the subtask `ASK`; others read earlier steps.
        """


class ChosenPlan(Planner):
    """Writes the plan that a function chooses for a query.

    Args:
        queries: the queries by the key of their text.
        choose: returns the plan for a query.
    """

    name = "chosen"
    reads_cards = False

    def __init__(
        self, queries: Mapping[str, Question | Bundle], choose: Callable[[Question | Bundle], Plan]
    ) -> None:
        self._queries = queries
        self._choose = choose

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write the plan.

        Raises:
            PlannerError: what the plan needs was not recorded.
        """
        try:
            plan = self._choose(self._queries[content_key(request.query[-1].text)])
        except Unrecorded as error:
            raise PlannerError(f"the plan cannot be answered: {error}") from error
        yield PlanText(text=write_plan(plan, "rows"), cost=0.0)


def bundle_plan(bundle: Bundle, choose: Callable[[Question], Plan], join: int) -> Plan:
    """Return the plan that answers each part by the plan chosen for its question, and joins the answers.

    Args:
        bundle: the bundle.
        choose: returns the plan for the question of a part.
        join: the number of a `JoinParts` in the pool.
    """
    steps: list[Step] = []
    ends: list[int] = []
    for part in bundle.parts:
        steps += _moved(choose(part.question).steps, part, ends, len(steps))
        ends.append(len(steps) - 1)
    return Plan((*steps, Step(join, "Join the answers.", tuple(ends))))


def _moved(steps: Iterable[Step], part: Part, ends: list[int], offset: int) -> list[Step]:
    """Return the steps of a part's plan as they stand in the plan of the bundle."""
    subtask = literal(part.question.text)
    needed: tuple[int, ...] = ()
    if part.needs is not None:
        before, after = map(literal, part.around)
        end = ends[part.needs]
        subtask, needed = f"{before}{{{{{end}}}}}{after}", (end,)
    return [
        Step(step.worker, subtask, needed)
        if step.subtask == ASK
        else Step(step.worker, step.subtask, tuple(number + offset for number in step.access))
        for step in steps
    ]
