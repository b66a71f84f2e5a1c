"""An episode, the outcome of a plan for it, and the base class of environments."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from podium.errors import ConfigError
from podium.prompts.prompt import shown_step
from podium.types import Plan
from podium.workers import Card, VisibleStep


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One question with the pool that the conductor is shown for it."""

    question: str
    """The text of the question, as the workers see it."""
    cards: tuple[Card, ...]
    """The cards that the conductor reads; their order gives the numbers of the workers in the plan."""
    workers: tuple[str, ...]
    """The environment's names of the workers, in the order of `cards`. Names on cards may be aliases."""
    kind: str
    """The kind of the question, by which results are clustered."""
    reference: str = ""
    """What the environment needs to find the right answer, for example the key of a recorded question."""
    texts: tuple[tuple[str, str], ...] = ()
    """Name and content of each named text, to which subtasks refer as `{{name}}`."""
    shows_question: bool = True
    """Whether workers see the question in addition to their subtask."""
    fills: tuple[int, ...] = ()
    """Places in `cards` of the workers that read no prose, such as a vote; see `PlanRequest.fills`."""

    @cached_property
    def key(self) -> str:
        """A hash of the episode: episodes with equal contents have the same key in all processes."""
        cards = [_shown(card) for card in self.cards]
        known: list[object] = [self.question, cards, self.workers, self.kind, self.reference]
        content = [*known, self.texts, self.shows_question, self.fills]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def _shown(card: Card) -> list[object]:
    """Return the parts of a card that prompts show."""
    price = None if card.price is None else (float(card.price.input), float(card.price.output))
    rates = [
        (rate.kind.name, float(rate.rate), rate.answers, str(rate.measured_on)) for rate in card.measured
    ]
    return [card.name, card.description, price, card.context_window, sorted(card.parts), rates]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """The outcome of a valid plan."""

    score: float
    """The grade of the answer, from 0 to 1."""
    cost: float | None = 0.0
    """What the calls of workers cost, in the environment's unit, mostly USD; `None` if a price is unknown."""
    calls: int = 0
    """Number of worker calls."""
    tokens: int = 0
    """Tokens that the workers read and wrote; 0 if unknown."""
    outputs: tuple[str | None, ...] = ()
    """The output of each step, in the order of the plan; `None` for a step without an output."""

    @property
    def answer(self) -> str:
        """The answer, which is the output of the last step; empty if there is none."""
        return (self.outputs[-1] or "") if self.outputs else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRound:
    """The first round of an episode, whose answer the conductor may improve in the second round."""

    plan: Plan
    """The plan of the first round."""
    outputs: tuple[str | None, ...]
    """`PlanOutcome.outputs` of this plan."""

    def visible(self) -> tuple[VisibleStep, ...]:
        """Return what workers see of this round if their access list has `"previous"`."""
        return tuple(
            shown_step(self.plan, index, output, previous=True)
            for index, output in enumerate(self.outputs)
            if output is not None
        )


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
