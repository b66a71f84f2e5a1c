"""An evaluation as a table of plain text, and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from podium_evals.results import rounding
from podium_train.evaluation.comparison import ArmScores, Evaluation

_HEAD = ("arm", "score", "gain", "alone", "together", "unknown", "invalid", "calls", "$/1000")


def as_table(evaluation: Evaluation) -> str:
    """Return a table with a line for each arm, and notes."""
    rows = [_HEAD, *(tuple(_cells(arm, evaluation.base)) for arm in evaluation.arms)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        f"{evaluation.environment}, split {evaluation.split}: {evaluation.episodes:,} episodes",
        "",
        *(_line(row, widths) for row in rows),
        "",
        *_notes(evaluation),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    others = map(str.rjust, row[1:], widths[1:])
    return " ".join([row[0].ljust(widths[0]), *others]).rstrip()


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as JSON data."""
    return asdict(evaluation)


def _cells(arm: ArmScores, base: str) -> Iterator[str]:
    yield arm.name + ("" if arm.is_achievable else " *")
    yield rounding.score(arm.score.mean)
    if arm.difference is None:
        yield from ("base" if arm.name == base else rounding.UNKNOWN, "", "")
    else:
        yield rounding.gain(arm.difference.alone.mean)
        yield rounding.interval(arm.difference.alone)
        yield rounding.interval(arm.difference.together)
    yield _percent(arm.unknown)
    yield _percent(1 - arm.valid - arm.failed)
    yield rounding.count(arm.calls)
    yield rounding.per_thousand(arm.cost)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share > 1e-9 else "0"


def _notes(evaluation: Evaluation) -> Iterator[str]:
    about = "other kinds" if evaluation.unit == "kind" else "other questions of the same kinds"
    yield f"gain: above {evaluation.base}; 95 % intervals, about {about}, alone and for all arms together."
    yield "Plans that are invalid or whose outcome is unknown count 0. Scores and gains are rounded down."
    if not all(arm.is_achievable for arm in evaluation.arms):
        yield "* reads the right answers: an estimate of a bound, not a result; another arm can be above it."
    for arm in evaluation.arms:
        if arm.problems:
            told = ", ".join(f"{number} {problem}" for problem, number in arm.problems.items())
            yield f"{arm.name}: {told}"
        if arm.failure:
            yield f"{arm.name} gave no text for {_percent(arm.failed)}, first because of {arm.failure}"
