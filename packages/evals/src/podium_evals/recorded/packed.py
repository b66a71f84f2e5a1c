"""Reads the packed files of three public recordings: gzipped JSON lines, one question per line.

Two of them have only the final answers, without usage and latency. The third has usage and latency, but no
texts.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from podium.config.source import why_unreadable
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import bfcl, mmlu_pro, reasoning_gym
from podium_evals.recorded.question import Question
from podium_evals.recorded.recordings import Recording, Recordings, Sample

Level = Literal["easy", "hard"]
_Rows = Iterable[Mapping[str, Any]]


def read_reasoning_gym(path: Path | str, *, level: Level | None = None) -> Recordings:
    """Read `reasoning_gym_recorded.jsonl.gz`.

    Args:
        path: the file.
        level: the level; `None` reads both. The pools of the levels differ. If a question is in both levels,
            its first row in the file counts.

    Raises:
        RecordingInvalid: the file has another form.
    """
    left_out = Counter[str]()
    rows = _rows(Path(path), {"level", "dataset", "index", "question", "answers"})
    return Recordings(_of_reasoning_gym(rows, level, left_out), reasoning_gym.PROVENANCE, left_out)


def read_mmlu_pro(path: Path | str) -> Recordings:
    """Read `mmlu_pro_recorded.jsonl.gz`.

    Raises:
        RecordingInvalid: the file has another form.
    """
    rows = _rows(Path(path), {"category", "question", "options", "answer", "pred"})
    return Recordings(_of_mmlu_pro(rows), mmlu_pro.PROVENANCE)


def read_bfcl(path: Path | str) -> Recordings:
    """Read `bfcl_recorded.jsonl.gz`: scores, tokens and latency of tool calls, without the texts.

    An answer without token counts (a failed call) has no usage, so its worker has no cost.

    Raises:
        RecordingInvalid: the file has another form.
    """
    left_out = Counter[str]()
    rows = _rows(Path(path), {"kind", "id", "question", "answers"})
    return Recordings(_of_bfcl(rows, left_out), bfcl.PROVENANCE, left_out)


def _of_bfcl(rows: _Rows, left_out: Counter[str]) -> Iterator[Recording]:
    for row in rows:
        if row["kind"] not in bfcl.KINDS:
            left_out[reasoning_gym.HELD_BACK] += len(row["answers"])
            continue
        question = Question(id=f"bfcl/{row['id']}", kind=row["kind"], text=row["question"])
        for worker, answer in row["answers"].items():
            if answer is not None:
                yield Recording(question, worker, (bfcl.sample(worker, *answer),))


def _of_reasoning_gym(rows: _Rows, level: Level | None, left_out: Counter[str]) -> Iterator[Recording]:
    for row in rows:
        if level not in (None, row["level"]):
            continue
        if row["dataset"] not in reasoning_gym.KINDS:
            left_out[reasoning_gym.HELD_BACK] += len(row["answers"])
            continue
        question = reasoning_gym.question(row["level"], row["dataset"], row["index"], row["question"])
        for worker, answers in row["answers"].items():
            yield Recording(question, worker, tuple(_sample(text, score) for text, score in answers))


def _sample(text: str, score: float) -> Sample:
    """Return a sample. If the source lacks the answer, the packed text is `None` and the score 0 or 0.01."""
    is_missing = text == "None" and score <= 0.01
    return Sample(text="" if is_missing else text, score=score)


def _of_mmlu_pro(rows: _Rows) -> Iterator[Recording]:
    for row in rows:
        question = mmlu_pro.question(row["category"], row["question"], row["options"], row["answer"])
        for worker, chosen in row["pred"].items():
            yield Recording(question, worker, (mmlu_pro.sample(chosen, row["answer"]),))


def _rows(path: Path, names: set[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file. Each row has at least these fields."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                row = json.loads(line)
                if missing := names - set(row):
                    raise RecordingInvalid(f"{path}, line {number}: the field {min(missing)!r} is missing")
                yield row
    except (OSError, EOFError, ValueError) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error
