"""Scores answers with the graders in the library `reasoning-gym`: each kind of question has its own."""

from collections.abc import Mapping
from typing import Any

from podium.errors import ConfigError, install_hint


def score_by_kind(row: Mapping[str, Any], answer: str) -> float:
    """Return the score by the grader of the question's kind, 0 to 1.

    The row is an entry of the library: `question`, `answer` and `metadata`. The kind is under
    `source_dataset` in `metadata`.

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
        # The graders of `arc_agi` and `rearc` look for tuples, which JSON does not have.
        raise ConfigError(
            f"the grader of {kind!r} rejects the question's right answer: was the question in a JSON "
            f"file, which changes tuples to lists?"
        )
    return min(max(float(score(answer, dict(row))), 0.0), 1.0)
