"""Readers of a log notice an incomplete answer: in the stop reason, the error and the score of its sample."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from contracts.incomplete_contract import ANSWER, QUESTION, Face, Seen, check_seen, conductor_of
from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample, read_eval_log
from inspect_ai.scorer import includes

from inspect_podium import conductor as solver_of, conductor_model, questions
from podium import Conductor

ROW: Final = f'{{"question": "{QUESTION}", "answer": "{ANSWER}", "grader": "exact"}}\n'


def sample_of(task: Task, **options: Any) -> EvalSample:
    (log,) = evaluate(task, **options)
    assert log.status == "success", log.error
    (sample,) = read_eval_log(log.location).samples
    return sample


def through_model(conductor: Conductor) -> EvalSample:
    return sample_of(questions("questions.jsonl"), model=conductor_model(conductor))


def through_solver(conductor: Conductor) -> EvalSample:
    return sample_of(questions("questions.jsonl"), solver=solver_of(made=conductor), model="none/none")


def through_other_scorer(conductor: Conductor) -> EvalSample:
    task = Task(dataset=[Sample(input=QUESTION, target=ANSWER)], scorer=includes())
    return sample_of(task, model=conductor_model(conductor))


def says_it(text: str | None) -> bool:
    return text is not None and text.startswith("(Not complete: ") and "out of order" in text


@pytest.mark.parametrize(
    ("ask", "is_ours"), [(through_model, True), (through_solver, True), (through_other_scorer, False)]
)
def test_a_reader_of_a_log_notices(ask: Callable[[Conductor], EvalSample], *, is_ours: bool) -> None:
    """In Inspect's own fields; the text is unchanged, because scorers compare it."""
    Path("questions.jsonl").write_text(ROW)  # the fixtures change to a folder of the test
    whole, lacking = ("stop", False, None, False), ("max_tokens", True, "partial", True)
    for is_complete in (True, False):
        sample = ask(conductor_of(is_complete=is_complete))
        output, (score,) = sample.output, (sample.scores or {}).values()
        assert score.value in (1, "C")
        said = (output.stop_reason, says_it(output.error))
        said += (score.reason, says_it(score.explanation)) if is_ours else ()
        face = Face(complete=whole[: len(said)], incomplete=lacking[: len(said)], is_text=False)
        check_seen(face, Seen(output.completion, said), is_complete=is_complete)
