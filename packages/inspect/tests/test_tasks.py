"""Files of questions and recordings are tasks of Inspect, with Podium's graders as scorers."""

import json
import re
from pathlib import Path

import pytest
from inspect_ai import eval as evaluate
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import get_model
from servers.chat_server import ChatServer

from inspect_podium import conductor, questions, recording
from podium import Plan, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner
from podium_evals.recorded import Question, Recording, Recordings, Sample, write_recordings


def value(log: EvalLog) -> float:
    assert log.status == "success", log.error
    return log.results.scores[0].metrics["mean"].value


def test_questions_are_answered_and_graded(config: Path, sums: str, server: ChatServer) -> None:
    """By a conductor as the model; kinds are clusters of the standard error."""
    model = get_model("podium/mine", memoize=False)
    (log,) = evaluate("inspect_podium/questions", task_args={"file": sums}, model=model)
    assert (value(log), {sample.metadata["kind"] for sample in log.samples}) == (0.75, {"even", "odd"})
    assert {sample.scores["graded"].answer for sample in log.samples} == {"7", "2", "4", "6"}
    assert log.results.scores[0].metrics["stderr"].value > 0


def test_a_conductor_is_a_solver(config: Path, sums: str, server: ChatServer) -> None:
    """Its plan and steps are in the transcript and in the metadata, its usage in the log."""
    (log,) = evaluate(questions(sums), solver=conductor(str(config)), model="none/none")
    assert value(log) == 0.75
    told = [sample.metadata["podium"]["usage"] for sample in log.samples]
    used = log.stats.model_usage["podium/conductor"].total_tokens
    assert used == sum(usage["input_tokens"] + usage["output_tokens"] for usage in told) > 0
    sample = log.samples[1]
    assert sample.metadata["podium"]["steps"][0]["output"] == sample.output.completion
    (_, read, *_) = read_eval_log(log.location, resolve_attachments=True).samples
    (shown,) = [event.data for event in read.events if event.event == "info" and event.source == "podium"]
    assert re.match(r"\*\*ok\*\*, planned by rule, 1 step, [1-9]\d* tokens, cost \$", shown)
    assert shown.splitlines()[-1].startswith("| 0 | small |  | ")
    assert sample.messages[-1].text == "So \\boxed{2}."


def test_code_is_run_with_permission_alone(tmp_path: Path) -> None:
    row = {"question": "Double it.", "tests": {"type": "stdin", "cases": []}, "grader": "code"}
    (tmp_path / "code.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(ConfigError, match="runs the code in answers"):
        questions(str(tmp_path / "code.jsonl"))
    (tmp_path / "plain.jsonl").write_text('{"question": "Why?"}\n')
    with pytest.raises(ConfigError, match="has no `grader`"):
        questions(str(tmp_path / "plain.jsonl"))


@pytest.fixture
def answers(tmp_path: Path) -> str:
    """Write a recording: `a` is right half of the time, `b` and `c` on each even question."""
    asked = [Question(id=f"q{n}", kind=("even", "odd")[n % 2], text=f"Question {n}?") for n in range(6)]
    found = Recordings(
        Recording(question, worker, tuple(Sample(text=f"{right}", score=float(right)) for right in rights))
        for n, question in enumerate(asked)
        for worker, rights in (("a", (1, 0)), ("b", (1 - n % 2,) * 2), ("c", (1 - n % 2,) * 2))
    )
    path = tmp_path / "answers.jsonl"
    write_recordings(found, path)
    return str(path)


@pytest.mark.parametrize(("workers", "score"), [("a", 0.5), ("all", 0.5)])
def test_a_recording_is_a_task(answers: str, workers: str, score: float) -> None:
    """One worker alone or the vote of several; epochs take the samples in turn, and no model is called."""
    (log,) = evaluate("inspect_podium/recording", task_args={"file": answers, "workers": workers}, epochs=2)
    assert (value(log), len(log.samples), log.stats.model_usage) == (score, 12, {})
    if workers == "a":
        assert {sample.scores["recorded_score"].value for sample in log.samples} == {0.0, 1.0}


def test_what_nobody_recorded_has_no_score(answers: str) -> None:
    planner = FixedPlanner(Plan((Step(0, "Rephrase the question."),)))
    (log,) = evaluate(recording(answers, planner=planner))
    assert (log.status, "unrecorded" in log.error.message) == ("error", True)
    with pytest.raises(ConfigError, match=r"missing\.jsonl cannot be read"):
        recording("missing.jsonl")
