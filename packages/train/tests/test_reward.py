"""The reward of a conductor's text."""

from collections.abc import Sequence

import anyio
import pytest

from podium.types import Plan
from podium.workers import Card
from podium_train import EarlierRound, Environment, Episode, PlanOutcome, reward_of
from podium_train.environments import Split

EPISODE = Episode(
    question="What is 2 + 2?", cards=(Card(name="a"), Card(name="b")), workers=("good", "bad"), kind="sum"
)


class Scored(Environment):
    """A plan is right if its last step is for the worker `good`; the outcome of `lost` cannot be known."""

    name, version, splits = "scored", "1", ("train",)

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return the same episode."""
        return [EPISODE] * count

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome | None:
        """Grade the last step's worker."""
        worker = episode.workers[plan.steps[-1].worker]
        return None if "lost" in plan.steps[0].subtask else PlanOutcome(score=float(worker == "good"))


def text(worker: int, subtask: str = "add") -> str:
    """Return the text of a plan with one step."""
    return f'model_id = [{worker}]\nsubtasks = ["{subtask}"]\naccess_list = [[]]'


@pytest.mark.parametrize(
    ("plan", "value", "problem"),
    [
        (text(0), 1.0, ""),
        (text(1), 0.5, ""),
        (text(0, "lost"), None, ""),
        (text(2), 0.0, "unknown_worker"),
        ("I do not know.", 0.0, "no_plan"),
    ],
)
def test_reward(plan: str, value: float | None, problem: str) -> None:
    """It is 0 without a valid plan, 0.5 for a wrong answer, 1 for a right one, and `None` if unknown."""

    async def rewarded() -> None:
        reward = await reward_of(plan, EPISODE, Scored())
        assert (reward.value, reward.problem) == (value, problem)

    anyio.run(rewarded)


def test_the_key_of_an_episode_depends_on_its_content_only() -> None:
    """So that rewards can be cached between processes."""
    again = Episode(
        question=EPISODE.question, cards=(Card(name="a"), Card(name="b")), workers=("good", "bad"), kind="sum"
    )
    other = Episode(
        question=EPISODE.question, cards=(Card(name="b"), Card(name="a")), workers=("bad", "good"), kind="sum"
    )
    assert again.key == EPISODE.key != other.key
