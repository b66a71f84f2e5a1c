"""The graders of Reasoning Gym's own kinds, by the library `reasoning-gym`."""

from collections.abc import Mapping
from typing import Any

from podium.errors import ConfigError
from podium.installing import install_hint
from podium_evals.grading.answers import final_answer


def reasoning_gym(row: Mapping[str, Any], text: str) -> float:
    """Return the score that the kind's own grader gives, 0 to 1.

    The row is one of the library's entries: `question`, `answer`, and `metadata`, which names the kind under
    `source_dataset`.

    Raises:
        ConfigError: the library is not installed, or the row is none of its entries.
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
    answer = final_answer(text)
    if not answer:
        return 0.0
    score = get_score_answer_fn(str(metadata["source_dataset"]))(answer, dict(row))
    return min(max(float(score), 0.0), 1.0)
