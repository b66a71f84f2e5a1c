"""Compares a tiny conductor with the other arms on held-out episodes of recorded answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import anyio
import torch

from podium.types import Plan
from podium_train.environments import Episode, RecordedAnswers
from podium_train.environments.environment import Split
from podium_train.environments.recorded import parts_of
from podium_train.evaluation import Evaluation, PlanArm, compare_arms, evaluate
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.rollouts import roll_out

GREEDY, SAMPLED = "tiny conductor, greedy", "tiny conductor, sampled"
SAMPLES = 4
"""Number of sampled texts for each episode."""
_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison on one split."""

    split: Split
    over_best_single: Evaluation
    over_conductor: Evaluation
    """The same scores; differences are to the greedy conductor, so a negative one is a gain of it."""
    lost: float
    """Share of the parts that no step of the greedy conductor asks; all parts of an invalid plan are lost."""


def compare_on(
    environment: RecordedAnswers,
    conductor: TinyConductor,
    others: Sequence[PlanArm],
    split: Split,
    count: int,
    *,
    seed: int,
) -> Compared:
    """Compare a conductor with other arms.

    Args:
        environment: the environment.
        conductor: writes a text at temperature 0 and some at temperature 1 for each episode.
        others: the other arms, with an arm `best single`.
        split: the split.
        count: number of episodes; of a split with fewer single questions, each is asked once.
        seed: seed of the episodes and of the sampled texts.
    """
    if environment.settings.parts is None:
        count = min(count, len(environment.partition.questions[split]))
    episodes = environment.episodes(split, count, seed=seed)
    arms = [
        _arm(conductor, environment, episodes, is_greedy=True, seed=seed),
        _arm(conductor, environment, episodes, is_greedy=False, seed=seed),
        *others,
    ]
    trials = anyio.run(evaluate, environment, episodes, arms)
    compared = partial(compare_arms, arms, trials, environment=environment.name, split=split)
    plans = [trial.reward.plan for trial in trials[GREEDY]]
    return Compared(
        split=split,
        over_best_single=compared(base="best single"),
        over_conductor=compared(base=GREEDY),
        lost=_lost(environment, episodes, plans),
    )


def _arm(
    conductor: TinyConductor,
    environment: RecordedAnswers,
    episodes: Sequence[Episode],
    *,
    is_greedy: bool,
    seed: int,
) -> PlanArm:
    """Return an arm whose texts are sampled at once, which is faster than one by one."""
    texts, temperature = (1, 0.0) if is_greedy else (SAMPLES, 1.0)
    generator = torch.Generator().manual_seed(seed)
    written: dict[str, list[str]] = {}
    for begin in range(0, len(episodes), _AT_ONCE):
        some = episodes[begin : begin + _AT_ONCE]
        found = roll_out(
            conductor, environment, some, texts=texts, temperature=temperature, generator=generator
        ).texts
        for number, episode in enumerate(some):
            written[episode.key] = found[number * texts : (number + 1) * texts]

    async def text(episode: Episode, sample: int) -> str:
        return written[episode.key][sample]

    return PlanArm(name=GREEDY if is_greedy else SAMPLED, text=text, samples=texts, spelling="lists")


def _lost(environment: RecordedAnswers, episodes: Sequence[Episode], plans: Sequence[Plan | None]) -> float:
    lost = parts = 0
    for episode, plan in zip(episodes, plans, strict=True):
        count = len(parts_of(environment.query_of(episode)))
        asked = {step.subtask for step in plan.calls} if plan else set()
        one = "Answer the question." in asked
        found = [f"Answer part {number}." in asked for number in range(1, count + 1)]
        parts += count
        lost += int(not one) if environment.settings.parts is None else found.count(False)
    return lost / parts
