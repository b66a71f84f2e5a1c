"""A planner that always writes the same plan."""

from collections.abc import AsyncGenerator

from podium.plan_text.writer import Spelling, write_plan
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.types.plan import Plan


class FixedPlanner(Planner):
    """Answers every request with one plan, whatever is asked and whoever the workers are.

    Args:
        plan: the plan, its workers numbered as the pool numbers them; or a text, which is
            handed on as it is, well formed or not.
        spelling: how a plan is written; a text has its own.
    """

    name = "fixed"
    reads_cards = False

    def __init__(self, plan: Plan | str, *, spelling: Spelling = "rows") -> None:
        self._text = plan if isinstance(plan, str) else write_plan(plan, spelling)

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write the plan, line by line."""
        if request.stream:
            for line in self._text.splitlines(keepends=True):
                yield line
        yield PlanText(text=self._text, why="the plan was fixed beforehand", cost=0.0)
