"""What the warm start needs of a world: its episodes, and texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from podium_train.environments import Environment, Episode
from podium_train.environments.specialists import Specialists
from podium_train.tiny.warm_start import right_texts


class World(Protocol):
    """Supplies the warm start with episodes and texts."""

    @property
    def environment(self) -> Environment:
        """The environment, which draws episodes and carries out plans."""

    def texts(self, episodes: Sequence[Episode], random: Random, count: int) -> Sequence[str]:
        """Return `count` texts for each episode, episode by episode."""


@dataclass(frozen=True, slots=True)
class SpecialistsWorld:
    """The synthetic world."""

    environment: Specialists

    def texts(self, episodes: Sequence[Episode], random: Random, count: int) -> Sequence[str]:
        """Return right ones of random plans for each episode."""
        return [text for episode in episodes for text in right_texts(episode, random, count)]


SPECIALISTS = SpecialistsWorld(Specialists())
