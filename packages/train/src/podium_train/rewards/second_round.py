"""The rewards of a group whose texts are of two rounds, as in the RL Conductor (arXiv 2512.04388).

A text of the first round gets `(1 - discount) * own + discount * following`, where `own` is its own reward,
and `following` is the mean reward of the texts that continue it. A text of the second round gets its own
reward. The paper's texts have one continuation each, and its discount is 0.25.
"""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

DISCOUNT = 0.25
"""The discount of the paper."""


def with_second_rounds(
    texts: Sequence[str],
    earlier: Sequence[str | None],
    rewards: Sequence[float | None],
    *,
    discount: float = DISCOUNT,
) -> list[float | None]:
    """Return the rewards of one group.

    Args:
        texts: the texts.
        earlier: for each text of the second round, the text of the first that it continues.
        rewards: the reward of each text by itself; `None` if unknown.
        discount: the weight of the second round, from 0 to 1.
    """
    following: dict[str, list[float]] = defaultdict(list)
    for before, reward in zip(earlier, rewards, strict=True):
        if before is not None and reward is not None:
            following[before].append(reward)
    return [
        (1 - discount) * reward + discount * fmean(following[text])
        if before is None and reward is not None and following[text]
        else reward
        for text, before, reward in zip(texts, earlier, rewards, strict=True)
    ]
