"""An episode, which is one question with one pool, and the outcome of a plan for it."""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

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

    def visible(self, names: Collection[str] = ()) -> tuple[VisibleStep, ...]:
        """Return what workers see of this round if their access list has `"previous"`.

        Args:
            names: the names of the episode's texts.
        """
        return tuple(
            shown_step(self.plan, index, output, previous=True, names=names)
            for index, output in enumerate(self.outputs)
            if output is not None
        )
