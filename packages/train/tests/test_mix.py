"""The mix of questions of the paper, from small files in the form of their publishers."""

import base64
import json
import pickle
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mix import SOURCES, main, write_mix

from podium.errors import ConfigError
from podium_evals.grading import choose_graders
from podium_evals.recording import read_questions

PACKED = base64.b64encode(
    zlib.compress(pickle.dumps(json.dumps([{"input": "2", "output": "4", "testtype": "functional"}])))
).decode()


def code(number: int) -> dict[str, Any]:
    """Return a problem: odd ones read the standard input, even ones define a method."""
    is_call = number % 2 == 0
    case = {"input": "3", "output": str(3 * number), "testtype": "functional" if is_call else "stdin"}
    return {
        "question_title": f"times {number}",
        "question_content": f"Multiply a number by {number}.",
        "public_test_cases": json.dumps([case]),
        "private_test_cases": PACKED if number == 2 else "",
        "starter_code": "class Solution:\n    def times(self, n):" if is_call else "",
        "metadata": json.dumps({"func_name": "times"} if is_call else {}),
        "difficulty": "easy",
    }


ROWS: Mapping[str, list[dict[str, Any]]] = {
    "math": [{"problem": f"What is {n} + 1?", "answer": str(n + 1), "level": 1} for n in range(5)],
    "mmlu": [
        {"question": f"Which is {n}?", "subject": "numbers", "choices": ["x", str(n), "y", "z"], "answer": 1}
        for n in range(5)
    ],
    "rlpr": [
        {
            "prompt": [{"role": "system", "content": "Think."}, {"role": "user", "content": f"Name {n}."}],
            "reward_model": {"ground_truth": f"name {'abcd'[n - 1]}" if n else "x" * 31, "style": "rule"},
        }
        for n in range(5)
    ],
    "livecodebench": [code(number) for number in range(1, 6)],
}
"""Five rows of each source; one answer of RLPR is too long."""
ANSWERS = {
    "math": lambda row: rf"\boxed{{{row['answer']}}}",
    "mmlu": lambda _row: "The answer is B.",
    "rlpr": lambda row: f"<answer>{row['answer']}</answer>",
}
"""Right answers of a model."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path | None]:
    found: dict[str, Path | None] = {}
    for kind, rows in ROWS.items():
        path = tmp_path / f"{kind}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found[kind] = path
    return found


def test_the_mix_is_written_with_its_licences(
    files: dict[str, Path | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """As many questions of each source; each can be graded, and an equal choice gives an equal file."""
    words = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    out = tmp_path / "questions.jsonl"
    monkeypatch.setattr("sys.argv", ["mix.py", *words, "--each", "4", "--out", str(out)])
    assert (main(), "has 16 questions" in capsys.readouterr().out) == (0, True)
    assert (main(), "exists: name another file" in capsys.readouterr().err) == (1, True)
    rows = read_questions(out)
    assert [row.question.kind for row in rows] == [kind for kind in SOURCES for _ in range(4)]
    assert {row.row["source"] for row in rows} == {source.name for source in SOURCES.values()}
    assert all(row.row["licence"] for row in rows)
    grader_of = choose_graders([row for row in rows if row.row["grader"] != "code"], None, None)
    for row in rows:
        if write := ANSWERS.get(row.question.kind):
            grader = grader_of(row.row)
            assert (grader(row.row, write(row.row)), grader(row.row, "17")) == (1.0, 0.0)
    tests = [row.row["tests"] for row in rows if row.question.kind == "livecodebench"]
    assert {(each["type"], each.get("function")) for each in tests} == {("stdin", None), ("call", "times")}
    write_mix(files, tmp_path / "again.jsonl", each=4, seed=42)
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()
    write_mix(files, tmp_path / "other.jsonl", each=4, seed=43)
    assert (tmp_path / "other.jsonl").read_bytes() != out.read_bytes()


def test_a_mix_that_cannot_be_written(files: dict[str, Path | None], tmp_path: Path) -> None:
    """Missing sources are named with their publisher and licence; rows of another form with their number."""
    out = tmp_path / "questions.jsonl"
    missing, mixed = {**files, "mmlu": None}, {**files, "mmlu": files["math"]}
    for given, each, told in (
        (missing, 4, r"--mmlu FILE: .*cais/mmlu \(licence: MIT\)"),
        (files, 5, "has 4 usable questions, and the mix takes 5"),
        (mixed, 4, "row 1 is not a row of cais/mmlu: KeyError: 'choices'"),
    ):
        with pytest.raises(ConfigError, match=told):
            write_mix(given, out, each=each, seed=1)
    assert not out.exists()
    out.write_text("")
    with pytest.raises(ConfigError, match="exists: name another file"):
        write_mix(files, out, each=4, seed=1)
