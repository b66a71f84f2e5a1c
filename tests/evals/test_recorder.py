"""Recorders ask what is missing, within a budget, and write each answer to the disk."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from podium import Card, Limits, Price, ScriptedWorker
from podium.errors import (
    AnswerEmpty,
    AnswerRefused,
    ConfigError,
    WorkerError,
    WorkerRefused,
    WorkerUnavailable,
)
from podium.execution import Retry
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request, Worker
from podium_evals.errors import RecordingInvalid
from podium_evals.grading import number
from podium_evals.recorded import Question, read_recordings
from podium_evals.recording import GrowingFile, QuestionRow, Recorder, Summary, read_questions

pytestmark = pytest.mark.anyio
QUICK = Retry(first_wait=0.001)
Answer = Callable[[Request], Any]


def sums(count: int) -> list[QuestionRow]:
    questions = [Question(id=f"s/{n}", kind="sums", text=f"What is {n} + {n}?") for n in range(count)]
    return [QuestionRow(each, {"answer": str(2 * n)}) for n, each in enumerate(questions)]


def adder(name: str = "adder", price: Price | None = None) -> ScriptedWorker:
    def double(request: Request) -> Completion:
        first = int(request.messages[-1].text.split()[2])
        return Completion(f"I add. The answer is {2 * first}.", usage=Usage(10, 20))

    return ScriptedWorker(Card(name=name, price=price), double)


async def record(path: Path, workers: Sequence[Worker], rows: list[QuestionRow], **options: Any) -> Summary:
    with GrowingFile(path) as file:
        return await Recorder(file, workers, **{"retry": QUICK, **options}).record(rows)


async def test_answers_are_recorded_with_what_they_took(tmp_path: Path) -> None:
    """Each worker is asked each question alone; the grader has the final answer recorded."""
    worker = adder()
    summary = await record(tmp_path / "r.jsonl", [worker, adder("other")], sums(3), grader=number, samples=2)
    read = read_recordings(tmp_path / "r.jsonl")
    assert (summary.recorded, len(read), read.workers) == (12, 3, ("adder", "other"))
    samples = read.samples(read.questions[2], "adder")
    assert [(each.text, each.score, each.usage) for each in samples] == [("4", 1.0, Usage(10, 20))] * 2
    assert all(each.latency_s is not None for each in samples)
    assert {len(request.messages) for request in worker.requests} == {1}


async def test_only_what_is_missing_is_asked(tmp_path: Path) -> None:
    """Another time, for more questions and samples, by the content of the question."""
    path = tmp_path / "r.jsonl"
    await record(path, [adder()], sums(2))
    worker = adder()
    again = [QuestionRow(Question(id="other", kind="k", text=" What is 1 + 1?\n"), {}), *sums(3)]
    summary = await record(path, [worker], again[1:], samples=2)
    assert (summary.recorded, summary.already, len(worker.requests)) == (4, 2, 4)
    assert (await record(path, [worker], again[:1], samples=2)).already == 2
    assert len(read_recordings(path)) == 3


async def test_a_line_that_was_cut_is_asked_again(tmp_path: Path) -> None:
    """As after a kill in the middle of a write."""
    path = tmp_path / "r.jsonl"
    await record(path, [adder()], sums(3), at_once=1)
    path.write_bytes(path.read_bytes()[:-7])
    summary = await record(path, [adder()], sums(3))
    assert (summary.recorded, summary.already, len(list(read_recordings(path)))) == (1, 2, 3)


async def test_cost_is_bounded_before_it_is_spent(tmp_path: Path) -> None:
    """No call is made whose worst case does not fit; what is set aside and not used is free again."""
    price = Price(input=1000.0, output=1000.0)
    limits = Limits(cost=0.25, answer_tokens=40)
    summary = await record(tmp_path / "r.jsonl", [adder(price=price)], sums(20), limits=limits, at_once=8)
    assert summary.spent.cost is not None
    assert 0.15 < summary.spent.cost <= 0.25
    assert (summary.recorded, summary.left) == (round(summary.spent.cost / 0.03), 20 - summary.recorded)


async def test_failed_calls_are_retried_and_counted(tmp_path: Path) -> None:
    """What may succeed is tried again; what failed is asked for the next time."""
    calls = dict[str, int]()

    def reply(request: Request) -> Any:
        text = request.messages[-1].text
        calls[text] = calls.get(text, 0) + 1
        if "1 + 1" in text:
            return WorkerUnavailable("down")
        if "2 + 2" in text and calls[text] < 3:
            return WorkerUnavailable("busy")
        return WorkerRefused("no key") if "3 + 3" in text else "fine"

    path = tmp_path / "r.jsonl"
    summary = await record(path, [ScriptedWorker("w", reply)], sums(4))
    assert (summary.recorded, summary.failed) == (2, {"worker_unavailable": 1, "worker_refused": 1})
    assert list(calls.values()) == [1, 3, 3, 1]
    assert (await record(path, [ScriptedWorker("w", "fine")], sums(4))).recorded == 2


@pytest.mark.parametrize("kind", [AnswerRefused, AnswerEmpty])
async def test_a_refusal_is_an_answer(tmp_path: Path, kind: type[WorkerError]) -> None:
    """An empty one, which costs its tokens and not the worst case; it is not paid for again."""
    path, card = tmp_path / "r.jsonl", Card(name="w", price=Price(input=1.0, output=2.0))
    refusing = ScriptedWorker(card, kind("I would rather not", usage=Usage(50, 10)))
    summary = await record(path, [refusing], sums(1))
    assert (summary.recorded, summary.spent.cost) == (1, pytest.approx(70 / 1e6))
    (recording,) = read_recordings(path)
    sample = recording.samples[0]
    assert (sample.text, recording.score, sample.usage) == ("", 0.0, Usage(50, 10))


async def test_a_call_that_takes_too_long_fails(tmp_path: Path) -> None:
    slow, limits = ScriptedWorker("w", "late", latency=60.0), Limits(attempt_seconds=0.05)
    summary = await record(tmp_path / "r.jsonl", [slow], sums(1), limits=limits, retry=Retry(attempts=1))
    assert (summary.failed, summary.spent.input_tokens > 0) == ({"worker_timeout": 1}, True)


async def test_an_answer_that_cannot_be_graded_ends_the_recording(tmp_path: Path) -> None:
    """With the reason, and not as a score of 0."""
    row = QuestionRow(Question(id="q", kind="k", text="What is 1 + 1?"), {"answer": "many"})
    with pytest.raises(ConfigError, match="not a number"):
        await record(tmp_path / "r.jsonl", [adder()], [row], grader=number)


def test_a_file_that_is_not_appended_to(tmp_path: Path) -> None:
    """That of another process, which would pay for the same; another file, which is left; and a folder."""
    with GrowingFile(tmp_path / "r.jsonl"), pytest.raises(RecordingInvalid, match="another process"):
        GrowingFile(tmp_path / "r.jsonl").__enter__()
    path = tmp_path / "notes.txt"
    for text in ("notes\n", "notes without an end", '{"type": "other"}\n{"half": '):
        path.write_text(text)
        with pytest.raises(RecordingInvalid, match=r"notes\.txt"):
            GrowingFile(path).__enter__()
        assert path.read_text() == text
    with pytest.raises(RecordingInvalid, match="cannot be written"):
        GrowingFile(tmp_path).__enter__()


def test_questions_are_read(tmp_path: Path) -> None:
    """With what graders need; a question that stands twice is asked once; other lines are refused."""
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"question": "One?", "answer": 1, "kind": "k", "level": "hard", "id": "x"}\n\n'
        '{"question": "Which?", "options": ["a", "b"], "answer": "B"}\n'
        '{"question": "One? "}\n'
    )
    first, second = read_questions(path)
    assert first.question == Question(id="x", kind="k", level="hard", text="One?", expected="1")
    assert (second.question.id, second.question.kind, second.row["options"]) == ("mine/3", "mine", ["a", "b"])
    assert "(B) b" in second.question.text
    for text in ("no JSON", "[]", '{"question": " "}', '{"text": "?"}'):
        path.write_text('{"question": "One?"}\n' + text + "\n")
        with pytest.raises(RecordingInvalid, match="line 2"):
            read_questions(path)
    with pytest.raises(RecordingInvalid, match="cannot be read"):
        read_questions(tmp_path / "absent.jsonl")
