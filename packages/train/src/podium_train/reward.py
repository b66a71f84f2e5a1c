"""The reward of a conductor's text, as in the RL Conductor (arXiv 2512.04388, section 3.1)."""

from dataclasses import dataclass, replace

from podium.errors import PlanError, PlanInvalid
from podium.plan_text import parse_plan
from podium.types import Plan
from podium.types.steps import Block, is_unconditional
from podium_train.environments import EarlierRound, Environment, Episode, PlanOutcome
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
    text: str,
    episode: Episode,
    environment: Environment,
    *,
    max_steps: int = MAX_STEPS,
    earlier: Reward | None = None,
) -> Reward:
    """Return the reward of a conductor's text for an episode.

    Args:
        text: what the conductor wrote.
        episode: the question and the pool that the conductor was shown.
        environment: carries out the plan.
        max_steps: maximum number of steps of a valid plan.
        earlier: the reward of the first round, if the text is of the second round. Its plan has an answer.
    """
    try:
        plan = read_plan(text, episode, max_steps=max_steps, previous=earlier is not None)
    except PlanError as error:
        return Reward(value=0.0, problem=error.code)
    if earlier is None:
        outcome = await environment.carry_out(episode, plan)
    else:
        assert earlier.plan is not None
        assert earlier.outcome is not None
        if keeps(plan, earlier.plan):
            outcome = replace(earlier.outcome, cost=0.0, calls=0, tokens=0)
            return Reward(value=earlier.value, plan=plan, outcome=outcome)
        before = EarlierRound(plan=earlier.plan, outputs=earlier.outcome.outputs)
        outcome = await environment.carry_out(episode, plan, before)
    if outcome is None:
        return Reward(value=None, plan=plan)
    return Reward(value=graded(outcome), plan=plan, outcome=outcome)


def read_plan(text: str, episode: Episode, *, max_steps: int, previous: bool = False) -> Plan:
    """Return the plan of a conductor's text.

    Args:
        text: what the conductor wrote.
        episode: the question and the pool.
        max_steps: maximum number of steps.
        previous: whether the text is of the second round, where a plan without steps keeps the answer.

    Raises:
        PlanError: the text has no valid plan.
    """
    plan = parse_plan(text, workers=len(episode.cards), max_steps=max_steps, previous=previous)
    plan.check_types([card.form for card in episode.cards])
    for index, step in enumerate(plan.steps):
        if isinstance(step, Block) or not is_unconditional(step):
            told = f"step {index} has each, when or steps, and environments have outcomes of plain steps"
            raise PlanInvalid("bad_shape", f"{told}: write steps with worker, subtask and access", step=index)
    if not plan.calls and not previous:
        raise PlanInvalid("nothing_to_keep", "the plan has no steps, and there is no answer to keep")
    return plan


def keeps(plan: Plan, earlier: Plan) -> bool:
    """Return whether a plan of the second round keeps the answer of the first, as in a run.

    It has no steps, or it repeats the first plan and its steps do not see the first round.
    """
    return not plan.calls or (plan == earlier and not any(step.previous for step in plan.calls))


def graded(outcome: PlanOutcome) -> float:
    """Return the reward of a valid plan with this outcome."""
    return 0.5 + 0.5 * outcome.score
