"""An episode, which is one question with one pool, and the outcome of a plan for it."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from podium.workers import Card


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

    @cached_property
    def key(self) -> str:
        """A hash of the episode: episodes with equal contents have the same key in all processes."""
        cards = [(card.name, card.description) for card in self.cards]
        content = [self.question, cards, self.workers, self.kind, self.reference]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """The outcome of a valid plan."""

    score: float
    """The grade of the answer, from 0 to 1."""
    cost: float = 0.0
    """What the plan's worker calls cost, in the environment's unit (USD where prices are known)."""
    calls: int = 0
    """Number of worker calls."""
    tokens: int = 0
    """Tokens that the workers read and wrote; 0 if unknown."""
