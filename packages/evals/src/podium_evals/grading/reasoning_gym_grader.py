"""The graders of Reasoning Gym's own kinds, by the library `reasoning-gym`."""

from collections.abc import Mapping
from typing import Any

from podium.errors import ConfigError
from podium.installing import install_hint


def score_by_kind(row: Mapping[str, Any], answer: str) -> float:
    """Return the score that the kind's own grader gives, 0 to 1.

    The row is an entry of the library: `question`, `answer`, and `metadata`, which names the kind under
    `source_dataset`.

    Raises:
        ConfigError: the library is not installed, the row is not one of its entries, or the grader rejects
            the right answer.
    """
    metadata = row.get("metadata")
    if not isinstance(metadata, Mapping) or "source_dataset" not in metadata:
        raise ConfigError(
            "the grader of Reasoning Gym needs `metadata` with `source_dataset` in each question"
        )
    try:
        from reasoning_gym import (  # type: ignore[import-untyped] # noqa: PLC0415 - needs an extra
            get_score_answer_fn,
        )
    except ImportError as error:
        hint = install_hint("evals[reasoning-gym]")
        raise ConfigError(f"the grader of Reasoning Gym needs reasoning-gym: {hint}") from error
    if not answer:
        return 0.0
    kind, right = str(metadata["source_dataset"]), row.get("answer")
    score = get_score_answer_fn(kind)
    if right is not None and score(right, dict(row)) < 1:
        # JSON has no tuples, for which the graders of `arc_agi` and `rearc` look.
        raise ConfigError(
            f"the grader of {kind!r} rejects the right answer of its question: was it in a file?"
        )
    return min(max(float(score(answer, dict(row))), 0.0), 1.0)
