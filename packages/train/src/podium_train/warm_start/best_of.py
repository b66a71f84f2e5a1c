"""Examples from the best plans of a planner, a conductor or a rule."""

from collections.abc import Callable, Sequence

from podium.plan_text import write_plan
from podium_train.environments import Environment, Episode
from podium_train.evaluation import PlanArm, Trial, evaluate
from podium_train.prompts import PromptStyle, messages
from podium_train.warm_start.examples import Example


async def best_of(  # noqa: PLR0913 - four have defaults
    environment: Environment,
    episodes: Sequence[Episode],
    arm: PlanArm,
    style: PromptStyle,
    *,
    least: float = 1.0,
    at_once: int = 8,
    on_trial: Callable[[Trial], object] = lambda _trial: None,
) -> list[Example]:
    """Return the best of an arm's plans for each episode, if it is good enough.

    Of plans with equal rewards the cheapest is taken, then the shortest. A plan whose outcome cannot be known
    is left out. The completion is the arm's text, with its reasoning, if the arm writes in the spelling of
    `style`; otherwise it is the plan alone in that spelling.

    Args:
        environment: carries out the plans.
        episodes: the episodes, of the split `train`.
        arm: plans each episode as often as it has samples: a prompted planner, or a rule that needs no model.
        style: how the conductor will be asked.
        least: the lowest reward of an example. 0.5 takes each valid plan, whatever its answer. So a policy
            learns the form of plans from random plans, and nothing about the workers.
        at_once: maximum plans at the same time.
        on_trial: is called after each plan.

    Raises:
        ConfigError: there is no episode.
    """
    trials = await evaluate(
        environment, episodes, [arm], max_steps=style.max_steps, at_once=at_once, on_trial=on_trial
    )
    of_episode: dict[int, list[Trial]] = {}
    for place, trial in enumerate(trials[arm.name]):
        if trial.reward.plan is not None and (trial.reward.value or 0.0) >= least:
            of_episode.setdefault(place // arm.samples, []).append(trial)
    source = arm.name if arm.samples == 1 else f"best of {arm.samples} of {arm.name}"
    return [_example(min(each, key=_rank), arm, style, source) for each in of_episode.values()]


def _rank(trial: Trial) -> tuple[float, float, int]:
    """Return the best first: by reward, cost, steps."""
    plan, outcome = trial.reward.plan, trial.reward.outcome
    assert plan is not None
    cost = float("inf") if outcome is None or outcome.cost is None else outcome.cost
    return -(trial.reward.value or 0.0), cost, len(plan.calls)


def _example(trial: Trial, arm: PlanArm, style: PromptStyle, source: str) -> Example:
    plan, value = trial.reward.plan, trial.reward.value
    assert plan is not None
    assert value is not None
    keeps = arm.spelling == style.spelling
    return Example(
        messages=messages(trial.episode, style),
        completion=(trial.text if keeps else write_plan(plan, style.spelling)).strip(),
        source=source,
        reward=value,
        kind=trial.episode.kind,
    )
