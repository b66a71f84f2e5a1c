"""Asks each arm for plans of the same episodes, and carries the plans out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import anyio

from podium.errors import ConfigError, PodiumError
from podium_evals.task_failures import first_failure
from podium_train.environments import Environment, Episode
from podium_train.evaluation.arm import PlanArm
from podium_train.reward import Reward, reward_of

MOST_STEPS = 32
"""Maximum number of steps of a plan of an arm that is not a conductor. Votes on the parts of a bundle need
more than the five that conductors are trained with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One plan text of an arm for an episode, and its reward."""

    arm: str
    episode: Episode
    sample: int
    """Number of the text among those for this episode, from 0."""
    text: str
    """The text; empty if the arm failed."""
    reward: Reward
    failure: str = ""
    """Why the arm gave no text; empty if it did."""

    @property
    def score(self) -> float | None:
        """The grade of the answer; 0 without a valid plan, `None` if it cannot be known."""
        if self.failure or self.reward.value is None:
            return None
        return 0.0 if self.reward.outcome is None else self.reward.outcome.score


async def evaluate(
    environment: Environment,
    episodes: Sequence[Episode],
    arms: Sequence[PlanArm],
    *,
    max_steps: int = MOST_STEPS,
    at_once: int = 8,
    on_trial: Callable[[Trial], object] = lambda _trial: None,
) -> dict[str, list[Trial]]:
    """Return the trials of each arm, in the order of the episodes and samples.

    An arm that fails for an episode, for example because its server does not answer, has a trial without a
    score.

    Args:
        environment: carries out the plans.
        episodes: what the arms are asked.
        arms: the arms; names differ.
        max_steps: maximum number of steps of a valid plan.
        at_once: maximum plans at the same time.
        on_trial: is called after each trial.

    Raises:
        ConfigError: two arms have one name, there is no episode, or `at_once` is below 1.
    """
    names = [arm.name for arm in arms]
    if len(set(names)) < len(names) or not episodes or at_once < 1:
        raise ConfigError("give arms of different names, at least one episode, and at_once of 1 or more")
    found: dict[tuple[str, int, int], Trial] = {}
    left = _left(arms, episodes)

    async def work() -> None:
        for arm, place, sample in left:
            trial = await _try(environment, arm, episodes[place], sample, max_steps)
            found[arm.name, place, sample] = trial
            on_trial(trial)

    with first_failure():
        async with anyio.create_task_group() as group:
            for _ in range(at_once):
                group.start_soon(work)
    return {
        arm.name: [
            found[arm.name, place, sample] for place in range(len(episodes)) for sample in range(arm.samples)
        ]
        for arm in arms
    }


def _left(arms: Sequence[PlanArm], episodes: Sequence[Episode]) -> Iterator[tuple[PlanArm, int, int]]:
    for arm in arms:
        for place in range(len(episodes)):
            for sample in range(arm.samples):
                yield arm, place, sample


async def _try(
    environment: Environment, arm: PlanArm, episode: Episode, sample: int, max_steps: int
) -> Trial:
    try:
        text = await arm.text(episode, sample)
    except PodiumError as error:
        failure = f"{error.code}: {error}"
        unknown = Reward(value=None)
        return Trial(arm=arm.name, episode=episode, sample=sample, text="", reward=unknown, failure=failure)
    reward = await reward_of(text, episode, environment, max_steps=max_steps)
    return Trial(arm=arm.name, episode=episode, sample=sample, text=text, reward=reward)
