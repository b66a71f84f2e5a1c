"""A planner that always writes the same plan."""

from collections.abc import AsyncGenerator

from podium.plan_text.writer import Spelling, write_plan
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.types.plan import Plan


class FixedPlanner(Planner):
    """Returns the same plan for every request.

    Args:
        plan: the plan, with the pool's numbers of workers; or a text, which is
            returned unchanged, even if it is not a valid plan.
        spelling: the spelling in which the plan is written; a text keeps its own.
    """

    name = "fixed"
    reads_cards = False

    def __init__(self, plan: Plan | str, *, spelling: Spelling = "rows") -> None:
        self._text = plan if isinstance(plan, str) else write_plan(plan, spelling)

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the plan, line by line."""
        if request.stream:
            for line in self._text.splitlines(keepends=True):
                yield line
        yield PlanText(text=self._text, why="the plan is fixed", cost=0.0)
