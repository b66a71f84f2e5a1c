"""Random changes of what the model reads in training, so that it learns nothing by heart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

import torch
from torch import Tensor

from podium.workers import Card
from podium_train.environments import Episode

NOBODY: Final = ""
"""The name of the worker in an empty place, which has no skill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """How much prompts vary in training. The workers and the graders see the whole question."""

    left_out: float = 0.15
    """Share of the words that are left out of the questions, so that no wording is learned by heart."""
    stretch: float = 1.5
    """All positions of a prompt and its texts are multiplied by a random factor from 1 / `stretch` to
    `stretch`, so that no distance is learned by heart and pools of other sizes can be read. After randomised
    positions (arXiv 2305.16843), which are random for each token."""

    places: int = 7
    """The workers of a pool are put in random ones of this many places, so that no number is in each pool.
    Places without a worker are in no row, and a plan that uses one is wrong. 0 changes nothing."""

    def placed(self, episode: Episode, random: Random) -> Episode:
        """Return the episode with its workers in other places, some of which are empty."""
        if self.places <= len(episode.workers):
            return episode
        taken = dict(
            zip(sorted(random.sample(range(self.places), len(episode.workers))), episode.workers, strict=True)
        )
        return replace(
            episode,
            workers=tuple(taken.get(place, NOBODY) for place in range(self.places)),
            cards=tuple(Card(name=f"worker-{place}") for place in range(self.places)),
        )

    def thinned(self, episode: Episode, random: Random) -> Episode:
        """Return the episode with a question that lacks some of its words."""
        if not self.left_out:
            return episode
        words = [word for word in episode.question.split() if random.random() >= self.left_out]
        return replace(episode, question=" ".join(words))

    def factors(self, episodes: Sequence[Episode], random: Random) -> Tensor:
        """Return a factor of the positions for each episode."""
        return torch.tensor([self.stretch ** random.uniform(-1, 1) for _ in episodes])


UNVARIED: Final = Variation(left_out=0.0, stretch=1.0, places=0)
"""Changes nothing."""
