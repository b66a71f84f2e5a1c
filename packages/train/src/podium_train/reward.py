"""The reward of a conductor's text, as in the RL Conductor (arXiv 2512.04388, section 3.1)."""

from dataclasses import dataclass

from podium.errors import PlanError
from podium.plan_text import parse_plan
from podium.types import Plan
from podium_train.environments import Environment, Episode, PlanOutcome
from podium_train.prompts import MAX_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The reward of one text, and why."""

    value: float | None
    """0 for a text without a valid plan, 0.5 for a valid plan with a wrong answer, 1 for a right answer, and
    between 0.5 and 1 for a graded one. `None` if the outcome cannot be known; do not train on such a text."""
    plan: Plan | None = None
    """The plan; `None` if the text has no valid plan."""
    outcome: PlanOutcome | None = None
    """The outcome of the plan; `None` without a plan or if it cannot be known."""
    problem: str = ""
    """The code of the error in the text; empty for a valid plan."""


async def reward_of(
    text: str, episode: Episode, environment: Environment, *, max_steps: int = MAX_STEPS
) -> Reward:
    """Return the reward of a conductor's text for an episode.

    Args:
        text: what the conductor wrote.
        episode: the question and the pool that the conductor was shown.
        environment: carries out the plan.
        max_steps: maximum number of steps of a valid plan.
    """
    try:
        plan = parse_plan(text, workers=len(episode.cards), max_steps=max_steps, previous=False)
    except PlanError as error:
        return Reward(value=0.0, problem=error.code)
    outcome = await environment.carry_out(episode, plan)
    if outcome is None:
        return Reward(value=None, plan=plan)
    return Reward(value=graded(outcome), plan=plan, outcome=outcome)


def graded(outcome: PlanOutcome) -> float:
    """Return the reward of a valid plan with this outcome."""
    return 0.5 + 0.5 * outcome.score
