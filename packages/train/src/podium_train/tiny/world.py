"""What the warm start needs of a world: its episodes, what the tiny model reads of them, and texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from podium_train.environments import Environment, Episode
from podium_train.environments.specialists import Specialists
from podium_train.tiny.prompt import tiny_message
from podium_train.tiny.warm_start import right_texts


class World(Protocol):
    """Supplies the warm start with messages and texts."""

    @property
    def environment(self) -> Environment:
        """The environment, which draws episodes and carries out plans."""

    def messages(self, episodes: Sequence[Episode], random: Random, *, left_out: float) -> Sequence[str]:
        """Return the message for each episode.

        Args:
            episodes: the episodes.
            random: draws the words that are left out.
            left_out: share of the words of a question that are left out.
        """

    def texts(self, episodes: Sequence[Episode], random: Random, count: int) -> Sequence[str]:
        """Return `count` texts for each episode, episode by episode."""


@dataclass(frozen=True, slots=True)
class SpecialistsWorld:
    """The synthetic world."""

    environment: Specialists

    def messages(self, episodes: Sequence[Episode], random: Random, *, left_out: float) -> Sequence[str]:
        """Return the message for each episode."""
        return [tiny_message(_thinned(episode, left_out, random)) for episode in episodes]

    def texts(self, episodes: Sequence[Episode], random: Random, count: int) -> Sequence[str]:
        """Return right ones of random plans for each episode."""
        return [text for episode in episodes for text in right_texts(episode, random, count)]


SPECIALISTS = SpecialistsWorld(Specialists())


def _thinned(episode: Episode, share: float, random: Random) -> Episode:
    """Return the episode with a question that lacks some of its words."""
    words = [word for word in episode.question.split() if random.random() >= share]
    return replace(episode, question=" ".join(words))
