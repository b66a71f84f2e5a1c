"""An environment whose outcomes follow from the plan's text, for tests."""

from collections.abc import Sequence
from datetime import date

import anyio

from podium.types import Plan
from podium.workers import Card, Kind, MeasuredRate, Price
from podium_train import EarlierRound, Environment, Episode, PlanOutcome
from podium_train.environments import Split

SUMS = Kind("sums", ("1 + 1?",))
RATE = MeasuredRate(kind=SUMS, rate=0.7, low=0.4, high=0.9, right=2, answers=3, measured_on=date(2026, 1, 1))
CARDS = (
    Card(name="a", price=Price(input=1, output=2), parts=frozenset({"image_url"}), measured=(RATE,)),
    Card(name="b"),
)


def episode(question: str = "What is 2 + 2?") -> Episode:
    return Episode(question=question, cards=CARDS, workers=("good", "bad"), kind="sum")


def plan(*workers: int, subtask: str = "add") -> str:
    """Return the text of a plan in which each step sees the step before it."""
    access = [[index - 1] if index else [] for index in range(len(workers))]
    return f"model_id = {list(workers)}\nsubtasks = {[subtask] * len(workers)}\naccess_list = {access}"


class ScoredWorld(Environment):
    """The last worker decides the score, and a step costs 1.

    A subtask with `lost` has no known outcome, one with `costs N` costs N per step, and one with `slow` takes
    very long.
    """

    name, version, splits = "scored", "1", ("train", "mixes")

    def __init__(self) -> None:
        self.executed: list[Plan] = []

    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        return [episode(f"What is {seed} + {index}?") for index in range(count)]

    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome | None:
        self.executed.append(plan)
        subtask = plan.steps[0].subtask
        await anyio.sleep(60 if "slow" in subtask else 0)
        if "lost" in subtask:
            return None
        each = float(subtask.partition("costs ")[2] or 1)
        score = float(episode.workers[plan.steps[-1].worker] == "good")
        steps = len(plan.steps)
        outputs = tuple(f"{episode.workers[step.worker]} {index}" for index, step in enumerate(plan.steps))
        return PlanOutcome(score=score, cost=each * steps, calls=steps, tokens=10 * steps, outputs=outputs)
