"""What second rounds make of the answers of first rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from podium_train.rewards import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondRounds:
    """Answers before and after a second round. Shares are from 0 to 1."""

    texts: int
    """Number of texts of second rounds whose outcome is known."""
    before: float
    """Accuracy after the first round."""
    after: float
    """Accuracy after the second round. A text without a valid plan leaves the answer as it was, as in a
    run."""
    kept: float
    """Share of the texts that keep the answer."""
    helped: float
    """Share of the texts after which the answer is better."""
    harmed: float
    """Share of the texts after which the answer is worse."""


def second_rounds(scores: Sequence[Score], others: Sequence[Score] = ()) -> SecondRounds | None:
    """Return what second rounds changed; `None` if no outcome of a second round is known.

    Args:
        scores: the scores of texts of second rounds.
        others: the scores of first rounds without a second round, which count in `before` and `after`.
    """
    known = [score for score in scores if score.value is not None and score.before is not None]
    if not known:
        return None
    pairs = [
        (_grade(score.before), _grade(score.before if score.problem else score.value)) for score in known
    ]
    rest = [_grade(score.value) for score in others if score.value is not None]
    return SecondRounds(
        texts=len(known),
        before=fmean([before for before, _ in pairs] + rest),
        after=fmean([after for _, after in pairs] + rest),
        kept=fmean(score.kept for score in known),
        helped=fmean(after > before for before, after in pairs),
        harmed=fmean(after < before for before, after in pairs),
    )


def second_told(found: SecondRounds | None) -> str:
    """Return the words on second rounds after other measures; empty if there are none."""
    if found is None:
        return ""
    return (
        f"; second rounds {found.before:.3f} -> {found.after:.3f} "
        f"(kept {found.kept:.0%}, helped {found.helped:.0%}, harmed {found.harmed:.0%})"
    )


def _grade(value: float | None) -> float:
    return max(0.0, 2 * (value or 0.0) - 1)
