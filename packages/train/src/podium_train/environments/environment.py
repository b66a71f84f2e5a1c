"""The base class of environments."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from podium.errors import ConfigError
from podium.types import Plan
from podium_train.environments.episode import EarlierRound, Episode, PlanOutcome

Split = Literal["train", "validation", "questions", "kinds", "workers", "mixes"]
"""A part of an environment's episodes: for training, for choosing checkpoints and settings, or held out with
unseen questions, unseen kinds of questions, unseen workers, or unseen combinations of known workers."""


class Environment(ABC):
    """Draws episodes, and carries out plans for them.

    Both are deterministic: the same arguments give the same result in every process, so that rewards can be
    cached and runs can be repeated. Environments that call live workers cannot promise it; they say so by
    `version`.
    """

    name: str
    """The name of the environment in logs and caches."""
    version: str
    """Changes whenever the outcome of a plan may change: a hash of the data, or the time for live workers."""
    splits: tuple[Split, ...]
    """The splits that the environment has."""
    brings: tuple[str, ...] = ()
    """The names on the cards at the end of each pool whose workers the environment adds, such as a vote. The
    section of a conductor that was trained with them adds them too."""
    unpriced: tuple[str, ...] = ()
    """The workers of unknown price. The cost of a plan that calls one is unknown."""

    @abstractmethod
    def episodes(self, split: Split, count: int, *, seed: int) -> Sequence[Episode]:
        """Return `count` episodes of a split.

        Raises:
            ConfigError: the environment has no such split.
        """

    def message(self, episode: Episode) -> str:  # noqa: ARG002 - there is no message
        """Return what the conductor reads with `form = "environment"` in `[prompt]`.

        A conductor that is not asked with the prompt of production cannot be served.

        Raises:
            ConfigError: the environment has no prompt of its own.
        """
        raise ConfigError(
            f"'form' in [prompt] is 'environment', and {self.name} has no prompt of its own: leave it out"
        )

    def baselines(self) -> Mapping[str, Callable[[Episode], Plan]]:
        """Return policies that a conductor is compared with, by name. `oracle` may know the right answers."""
        return {}

    @abstractmethod
    async def carry_out(
        self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None
    ) -> PlanOutcome | None:
        """Return the outcome of a valid plan.

        Args:
            episode: the episode.
            plan: the plan, with at least one step.
            earlier: the first round, if this is the plan of the second round. Steps with `"previous"` on
                their access list see its outputs. Cost, calls and tokens are those of the second round.

        Returns:
            `None` if the outcome cannot be known, for example because an answer is not recorded or a worker
            cannot be reached. The plan is then neither rewarded nor punished.
        """
