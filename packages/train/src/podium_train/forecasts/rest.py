"""The expected duration of the updates that are left, from the log of the updates so far."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from podium.cli import counted, duration
from podium_evals.statistics import Expected
from podium_train.recipes import GrpoSection, Recipe

REMEASURED = 5
"""Number of updates of a new run after which the rest is forecast again."""
_WINDOW = 50
_UNKNOWN = f"Expected duration: unknown; it is measured in the first {REMEASURED} updates."
Line = Mapping[str, Any]


def rest_of_sft(lines: Sequence[Line], left: int) -> str:
    """Return a sentence about the updates that are left.

    Args:
        lines: the lines of the log.
        left: number of updates.
    """
    found = _plain(lines)
    return _sentence(Expected.sum_of(found, left), len(found)) if found else _UNKNOWN


def rest_of_grpo(recipe: Recipe, lines: Sequence[Line], done: int) -> str:
    """Return a sentence about the steps that are left, with their measurements of held-out episodes.

    Args:
        recipe: the settings, with `[grpo]`.
        lines: the lines of the log.
        done: number of ended steps.
    """
    assert recipe.grpo is not None
    plain, measured = _plain(lines), measuring_seconds(lines)
    if not plain:
        return _UNKNOWN
    expected, missing = Expected.sum_of(plain, recipe.grpo.steps - done), ""
    if measurements := measurements_left(recipe, recipe.grpo, done):
        if measured:
            expected += Expected.sum_of(measured, measurements)
        else:
            missing = f", and {counted(measurements, 'measurement')} of unknown duration"
    return _sentence(expected, len(plain), missing)


def measurements_left(recipe: Recipe, grpo: GrpoSection, done: int) -> int:
    """Return the number of measurements of held-out episodes in the steps that are left."""
    return grpo.steps // recipe.held_out.every - min(done, grpo.steps) // recipe.held_out.every


def measuring_seconds(lines: Sequence[Line]) -> list[float]:
    """Return the duration of each measurement: how much longer its step was than other steps."""
    plain = _plain(lines)
    if not plain:
        return []
    return [
        max(0.0, line["seconds"] - fmean(plain))
        for line in lines
        if line.get("held_out") and line.get("seconds")
    ]


def _plain(lines: Sequence[Line]) -> list[float]:
    """Return the durations of the last updates, without the first of the run, which loads and compiles."""
    later = lines[1:] if len(lines) > 1 else lines
    found = [line["seconds"] for line in later if line.get("seconds") and not line.get("held_out")]
    return found[-_WINDOW:]


def _sentence(expected: Expected, updates: int, missing: str = "") -> str:
    since = f"from {counted(updates, 'update')}; it holds while texts are as long"
    return f"Expected duration: {expected.told(duration)}{missing}, {since}."
