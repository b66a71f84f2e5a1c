"""How episodes are drawn from recorded answers."""

from dataclasses import dataclass
from typing import Literal

from podium.errors import ConfigError

Asks = Literal["alone", "shown"]
"""How a plan asks a part of a bundle.

`alone`: a worker sees its subtask and not the bundle. The subtask is the text of the part, or names it as
`{{part_1}}`. This is what was recorded.

`shown`: a worker sees the whole bundle, and the subtask says which part to answer, as in "Answer part 1.".
Nobody was recorded on that, so the answer to the part alone stands in for it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSettings:
    """How episodes are drawn from recorded answers.

    Raises:
        ConfigError: a setting is invalid.
    """

    workers: tuple[str, ...] = ()
    """The workers of the recording that are used; none named takes all."""
    sizes: tuple[int, ...] = (3, 4)
    """Possible numbers of recorded workers in a pool."""
    probes: int = 3
    """Number of graded answers from which each rate on a card is measured; 0 shows no rates."""
    shown_kinds: int = 3
    """Number of kinds with a rate on the cards: those of the question, and others. At most as many as a
    prompt shows."""
    disguise: bool = True
    """Whether cards have pseudonyms and changed prices, so that a conductor cannot learn names."""
    parts: tuple[int, int] | None = None
    """Fewest and most parts of a bundle; `None` asks single questions."""
    linked: float = 0.3
    """Share of bundles in which a part needs the answer to another part."""
    asks: Asks = "alone"
    """How a plan asks a part of a bundle."""
    held_out: float = 0.2
    """Share of the kinds, and of the combinations of workers, that are held out."""
    held_workers: int = 2
    """Number of workers that are held out."""
    split_seed: int = 0
    """Seed of what is held out. With the same seed, `podium evals run --split questions` asks no question
    that an episode of `train` has."""

    def __post_init__(self) -> None:
        self._check("probes", self.probes >= 0, "0 or more")
        self._check("shown_kinds", 1 <= self.shown_kinds <= 3, "1 to 3")
        self._check("linked", 0 <= self.linked <= 1, "from 0 to 1")
        self._check("held_out", 0 < self.held_out < 1, "between 0 and 1")
        self._check("held_workers", self.held_workers >= 0, "0 or more")
        self._check("sizes", bool(self.sizes) and min(self.sizes) >= 2, "sizes of 2 workers or more")
        self._check("asks", self.asks in ("alone", "shown"), "'alone' or 'shown'")
        if self.parts is not None:
            self._check("parts", 2 <= self.parts[0] <= self.parts[1] <= 5, "two numbers from 2 to 5")

    def _check(self, name: str, is_valid: bool, allowed: str) -> None:  # noqa: FBT001 - a condition
        if not is_valid:
            raise ConfigError(f"{name} is {getattr(self, name)!r}: use {allowed}")
