"""Accuracy on held-out episodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from podium.cli.screen import counted
from podium_train.guards.second_rounds import SecondRounds
from podium_train.rewards import Score, WhyUnknown

REASONS: Mapping[WhyUnknown, str] = {
    "outcome": "a worker did not answer, or an answer is not recorded",
    "budget": "the budget is spent",
}
"""Why an outcome is unknown, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Accuracy on one held-out split."""

    sampled: float | None
    """With the temperature of training; `None` if no outcome is known."""
    greedy: float | None
    """With the most probable tokens; `None` if no outcome is known. It hides what training changes: look at
    both."""
    unknown: Mapping[WhyUnknown, int] = field(default_factory=dict)
    """Number of texts without an outcome, by the reason. They do not count in the accuracy."""
    sampled_second: SecondRounds | None = None
    """What second rounds make of the sampled answers, if the conductor has them."""
    greedy_second: SecondRounds | None = None
    """What second rounds make of the greedy answers."""

    @property
    def reached(self) -> float | None:
        """The sampled accuracy after all rounds, by which the best checkpoint is chosen."""
        return self.sampled if self.sampled_second is None else self.sampled_second.after


def accuracy(scores: Sequence[Score]) -> float | None:
    """Return the mean grade of the answers whose outcome is known; `None` without any."""
    grades = [max(0.0, 2 * score.value - 1) for score in scores if score.value is not None]
    return fmean(grades) if grades else None


def held_out_told(found: HeldOut) -> str:
    """Return the words on a measurement, with the number of unknown outcomes."""
    sampled, greedy = ("unknown" if each is None else f"{each:.3f}" for each in (found.sampled, found.greedy))
    missing = "".join(
        f"; the outcome of {counted(number, 'text')} is unknown: {REASONS[why]}"
        for why, number in found.unknown.items()
    )
    return f"{sampled} sampled, {greedy} greedy{missing}"
