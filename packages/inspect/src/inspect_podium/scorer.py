"""Podium's graders, and the scores of recordings, as scorers of Inspect."""

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from inspect_podium.messages import METADATA
from podium.errors import ConfigError
from podium_evals.errors import Unrecorded
from podium_evals.grading import choose_graders, grade
from podium_evals.recorded import Recordings, content_key, read_recordings
from podium_evals.recording import read_questions


@scorer(metrics=[mean(), stderr(cluster="kind")])
def graded(file: str, grader: str | None = None, run_code: str | None = None) -> Scorer:
    """Return a scorer that grades answers to the questions of a file.

    Args:
        file: the file of questions, JSON lines.
        grader: the grader of all answers; `None` uses the field `grader` of each question.
        run_code: the interpreter that runs code in answers, for the grader `code`; `None` allows no code.

    Raises:
        ConfigError: there is no such grader, a question has no grader, or answers are code and `run_code` is
            `None`.
        RecordingInvalid: the file cannot be read.
    """
    rows = {each.question.key: each.row for each in read_questions(file)}
    choose = choose_graders(list(read_questions(file)), grader, run_code)
    if any(choose(row) is None for row in rows.values()):
        raise ConfigError(f"a question of {file} has no `grader`: choose a grader with -T grader=NAME")

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - the row has the right answer
        row = rows.get(content_key(state.input_text))
        if row is None:
            raise ConfigError(f"{file} has no question {state.input_text[:80]!r}")
        chosen = choose(row)
        assert chosen is not None  # checked above
        final, value = await grade(chosen, row, state.output.completion)
        return _score(state, value, final)

    return score


@scorer(metrics=[mean(), stderr(cluster="kind")])
def recorded_score(file: str, recordings: Recordings | None = None) -> Scorer:
    """Return a scorer that looks up the recorded score of an answer.

    An answer that was never recorded has no score: the sample fails with `Unrecorded`.

    Args:
        file: the path or the name of the recording, which also appears in the log.
        recordings: the recording, if it was read already; `None` reads the file.

    Raises:
        RecordingInvalid: the file cannot be read.
    """
    found = recordings or read_recordings(file)

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - the recording has the score
        answer = state.output.completion
        value = found.score(state.input_text, answer)
        if value is None:
            raise Unrecorded(
                f"the answer {answer[:80]!r} to {state.sample_id!r} was not recorded with a score"
            )
        return _score(state, value, answer)

    return score


def _score(state: TaskState, value: float, answer: str | None) -> Score:
    """Return a score; for an incomplete answer, its explanation says so, and its reason is `partial`."""
    lack = state.output.error if METADATA in (state.output.metadata or {}) else None
    return Score(value=value, answer=answer, explanation=lack, reason=None if lack is None else "partial")
