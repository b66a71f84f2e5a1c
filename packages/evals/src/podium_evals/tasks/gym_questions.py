"""Makes new questions of Reasoning Gym with the library `reasoning-gym`, and writes them to a file."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from podium.config.source import why_unwritable
from podium.errors import ConfigError, install_hint
from podium_evals.grading import reasoning_gym
from podium_evals.recorded import Question
from podium_evals.recorded.reasoning_gym import KINDS
from podium_evals.recording import QuestionRow


def gym_questions(kind: str, count: int, *, seed: int, **settings: Any) -> tuple[QuestionRow, ...]:
    """Return new questions of a kind. The grader for them is `podium_evals.grading.reasoning_gym`.

    With the same release of the library, the same arguments give the same questions. The recorded easy
    questions were made with seed 45 and the default settings.

    Args:
        kind: the kind; the library calls it a dataset.
        count: the number of questions.
        seed: another seed gives other questions.
        settings: settings of the kind, such as its difficulty.

    Raises:
        ConfigError: the library is not installed, the kind is unknown or held back for a last test, or a
            setting is wrong.
    """
    if kind not in KINDS:
        raise ConfigError(f"{kind!r} is not a kind of Reasoning Gym, or is held back for a last test")
    try:
        from reasoning_gym import create_dataset  # type: ignore[import-untyped] # noqa: PLC0415 - an extra
    except ImportError as error:
        hint = install_hint("evals[reasoning-gym]")
        raise ConfigError(f"questions of Reasoning Gym need reasoning-gym: {hint}") from error
    try:
        entries = [dict(entry) for entry in create_dataset(kind, size=count, seed=seed, **settings)]
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(f"Reasoning Gym does not make {kind!r} with {settings!r}: {error}") from error
    return tuple(_row(kind, seed, index, entry) for index, entry in enumerate(entries))


def gym_rows(kind: str, count: int, *, seed: int, **settings: Any) -> list[Mapping[str, Any]]:
    """Return the same questions as rows of a questions file.

    Raises:
        ConfigError: as for `gym_questions`; or the kind is `arc_agi` or `rearc`. The graders of these kinds
            need tuples, which JSON does not have, so they reject right answers from a file.
    """
    rows = []
    for each in gym_questions(kind, count, seed=seed, **settings):
        named = {"id": each.question.id, "kind": kind, "grader": "reasoning-gym"}
        try:
            row = json.loads(json.dumps({**each.row, **named}))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"questions of {kind!r} cannot be kept in a file: {error}") from error
        if each.question.expected is not None:
            reasoning_gym(
                row, each.question.expected
            )  # raises an error if the grader rejects the right answer
        rows.append(row)
    return rows


def _row(kind: str, seed: int, index: int, entry: dict[str, Any]) -> QuestionRow:
    answer = entry["answer"]
    question = Question(
        id=f"gym/{kind}/{seed}/{index}",
        kind=kind,
        text=entry["question"],
        expected=None if answer is None else str(answer),
    )
    return QuestionRow(question, entry)


def write_questions(rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write a new file of questions, and return their number. A failed write leaves no partial file.

    Raises:
        ConfigError: the file already exists or cannot be written, or a row is not JSON.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        lines = [json.dumps(row, ensure_ascii=True) + "\n" for row in rows]
        if path.exists():
            raise ConfigError(f"{path} already exists: choose another file")
        with part.open("x", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
    finally:
        part.unlink(missing_ok=True)
    return len(lines)
