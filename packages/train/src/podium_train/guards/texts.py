"""Texts of the conductor with their grades, for people to read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from podium.secrets import printable
from podium_train.environments import Episode
from podium_train.guards.held_out import REASONS
from podium_train.guards.measures import Sample
from podium_train.rewards import Score

TEXTS: Final = "texts.jsonl"
"""The name of the log of texts in the folder of a run."""
_LOGGED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """A text of the conductor and its grade: one line of the log of texts."""

    step: int | None
    """Number of the training step; `None` outside of training."""
    question: str
    workers: tuple[str, ...]
    """The workers of the pool, by their numbers in plans."""
    earlier: str | None
    """The text of the first round, for a text of the second."""
    text: str
    """What the conductor wrote, with the prefill."""
    answer: str
    """The answer of the plan; empty if there is none."""
    reward: float | None
    """The reward before the cost and the second round are weighed; `None` if it is unknown."""
    has_plan: bool
    """Whether the text has a valid plan."""
    reason: str
    """Why it has this reward."""


def written_text(
    episode: Episode, text: str, score: Score, *, earlier: str | None = None, step: int | None = None
) -> WrittenText:
    """Return a text with its grade."""
    return WrittenText(
        step=step,
        question=episode.question,
        workers=episode.workers,
        earlier=earlier,
        text=text,
        answer=score.answer,
        reward=score.value,
        has_plan=bool(score.workers) or score.kept,
        reason=_reason(score),
    )


def logged_texts(step: int, samples: Sequence[Sample]) -> Iterator[WrittenText]:
    """Yield a few texts of a step, of different groups if there are enough."""
    for at in range(min(_LOGGED, len(samples))):
        each = samples[at * len(samples) // min(_LOGGED, len(samples))]
        yield written_text(each.episode, each.text, each.score, earlier=each.earlier, step=step)


def lines_of(written: WrittenText) -> Iterator[str]:
    """Yield the lines that show a text to people, without control characters."""
    workers = ", ".join(f"{number} {name}" for number, name in enumerate(written.workers))
    parts = {
        "question": written.question,
        "workers": workers,
        "first text": written.earlier,
        "text": written.text,
        "answer": written.answer,
        "reward": f"{'unknown' if written.reward is None else f'{written.reward:.3f}'}, {written.reason}",
    }
    for name, value in parts.items():
        if value:
            first, *rest = printable(value).splitlines() or [""]
            yield f"{name}: {first}"
            yield from (f"  {line}" for line in rest)


def _reason(score: Score) -> str:
    if score.why_unknown:
        return REASONS[score.why_unknown]
    if score.problem:
        return f"no valid plan: {score.problem}"
    kept = "keeps the answer: " if score.kept else ""
    grade = 2 * (score.value or 0.0) - 1
    named = {1.0: "right answer", 0.0: "wrong answer"}.get(grade, f"answer graded {grade:.2f}")
    return kept + named
