"""The published packed recordings are read as they are meant, and the real ones hold what their page says."""

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.evidence.recordings import (
    CHAT_MODELS,
    EASY,
    HELD_BACK,
    read_bfcl,
    read_mmlu_pro,
    read_public,
    read_reasoning_gym,
)
from podium.errors import ConfigError
from podium.usage import Usage
from podium_evals.errors import Unrecorded
from podium_evals.recorded import Recordings, Vote
from podium_evals.tasks import GYM_KINDS as KINDS

STRONG, WEAK = "strong", "weak"


def dice_row(index: int, *, level: str = "easy") -> dict[str, Any]:
    """Return a row of Reasoning Gym with three samples of two models."""
    answers = {STRONG: [[str(2 * index), 1.0]] * 3, WEAK: [["7", 0.0], ["", 0.0], ["8", 0.0]]}
    row = {"level": level, "dataset": "dice", "index": index, "answers": answers}
    return row | {"question": f"What is {index} + {index}?"}


def write_packed(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def scores(recordings: Recordings, worker: str) -> list[float]:
    """Return the mean score of each question that a worker has answered."""
    return [each.score for each in recordings if each.worker == worker]


def test_an_answer_that_the_source_lacks_is_empty(tmp_path: Path) -> None:
    """It is packed as `None`, which would win votes; a graded answer `None` is an answer."""
    row = dice_row(1)
    row["answers"] = {STRONG: [["None", 0.01], ["None", 0.0]], WEAK: [["None", 1.0]]}
    read = read_reasoning_gym(write_packed(tmp_path / "rg.gz", [row]))
    (question,) = read.questions
    assert [(each.text, each.score) for each in read.samples(question, STRONG)] == [("", 0.0), ("", 0.0)]
    assert read.samples(question, WEAK)[0].text == "None"


def test_questions_that_are_left_out(tmp_path: Path) -> None:
    """Another of the same text, if both levels are read; a kind that is not listed, wherever it is from."""
    twin = dice_row(1, level="hard")
    path = write_packed(tmp_path / "rg.gz", [dice_row(1), twin | {"question": "What  is 1 + 1? "}, twin])
    both = read_reasoning_gym(path)
    assert [question.level for question in both.questions] == ["easy", "hard"]
    assert both.left_out.total() == 2
    assert read_reasoning_gym(path, level="hard").left_out.total() == 0
    path = write_packed(tmp_path / "rg.gz", [dice_row(1) | {"dataset": "unlisted"}, dice_row(2)])
    read = read_reasoning_gym(path)
    assert (read.kinds, read.left_out) == (("dice",), {HELD_BACK: 2})


def test_a_folder_has_the_packed_file(tmp_path: Path) -> None:
    """Whose workers have the listed prices."""
    with pytest.raises(ConfigError, match="has neither reasoning-gym-easy"):
        read_public(EASY, "all", tmp_path)
    row = dice_row(1)
    row["answers"]["openai_o3-mini"] = row["answers"].pop(WEAK)
    write_packed(tmp_path / "reasoning_gym_recorded.jsonl.gz", [row])
    read = read_public(EASY, "all", tmp_path)
    assert {price.worker for price in read.prices} == {"openai_o3-mini"}


REAL = os.environ.get("PODIUM_EVALS_DATA", "")
needs_data = pytest.mark.skipif(not REAL, reason="PODIUM_EVALS_DATA names no folder with the real recordings")


@needs_data
@pytest.mark.long
@pytest.mark.parametrize(("level", "questions", "answers"), [("easy", 4100, 39321), ("hard", 4050, 39572)])
def test_the_real_reasoning_gym(level: str, questions: int, answers: int) -> None:
    """Ten models a level; no kind is held back; what is left out has a twin."""
    read = read_reasoning_gym(Path(REAL) / "reasoning_gym_recorded.jsonl.gz", level)
    assert (len(read.workers), set(read.kinds) <= KINDS, HELD_BACK in read.left_out) == (10, True, False)
    assert len(list(read)) + read.left_out.total() == answers
    assert len(read) <= questions


@needs_data
@pytest.mark.long
def test_the_real_mmlu_pro() -> None:
    """29 models; the chat models have questions in common, and the best is right on 72 of 100."""
    read = read_mmlu_pro(Path(REAL) / "mmlu_pro_recorded.jsonl.gz")
    assert (len(read.workers), len(read)) == (29, 11_873)
    common = read.only(CHAT_MODELS)
    assert len(common) > 10_000
    best = scores(common, "gemini-1.5-pro-002")
    assert 0.70 < sum(best) / len(best) < 0.73


def test_tool_calls_have_tokens_and_no_texts(tmp_path: Path) -> None:
    """A kind that is held back is left out; a failed call has no usage, and a vote cannot compare."""
    rows = [
        {"kind": "simple", "id": "0", "question": "Call it.", "answers": {"a": [1, 40, 9, 1.5], "b": None}},
        {"kind": "simple", "id": "1", "question": "Call.", "answers": {"a": [0, None, None, 2.0]}},
        {"kind": "rest", "id": "2", "question": "Fetch it.", "answers": {"a": [1, 4, 9, 1.5]}},
    ]
    path = tmp_path / "bfcl.jsonl.gz"
    recordings = read_bfcl(write_packed(path, rows))
    assert [question.kind for question in recordings.questions] == ["simple", "simple"]
    assert recordings.left_out == {"its kind is held back for a last test": 1}
    assert recordings.workers == ("a",)
    right, failed = (each.samples[0] for each in recordings)
    assert (right.score, right.usage, right.latency_s, right.is_empty) == (1.0, Usage(40, 9), 1.5, None)
    assert (failed.score, failed.usage) == (0.0, None)
    with pytest.raises(Unrecorded, match="only the scores of answers were recorded"):
        Vote().reduced("Call it.", [right.text, failed.text])
