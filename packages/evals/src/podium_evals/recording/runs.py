"""Makes a recording from the runs of a journal: from steps whose worker was shown only the question."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from podium.journal import Journal
from podium.run_state import fold
from podium.types import Event, Outcome, RunStarted, Step
from podium_evals.grading import Grader, GraderOf, grade, grader_of
from podium_evals.recorded import Question, Sample, content_key, without_instruction
from podium_evals.recording.growing_file import GrowingFile
from podium_evals.recording.question_rows import QuestionRow

KIND = "journal"
"""The kind of a question that is not in a file of questions."""


@dataclass(slots=True)
class JournalSummary:
    """The counts of steps that were recorded or left out."""

    recorded: int = 0
    """Number of answers that were recorded."""
    already: int = 0
    """Number of answers that were in the file before."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of steps that were left out, by reason."""


async def record_runs(
    journal: Journal,
    file: GrowingFile,
    *,
    limit: int | None = None,
    rows: Iterable[QuestionRow] = (),
    grader: Grader | GraderOf | None = None,
) -> JournalSummary:
    """Record the answers of a journal's runs; a step that was recorded before is not recorded again.

    A step is recorded under two conditions. Its subtask is the run's question, alone or after one of
    `podium_evals.recorded.INSTRUCTIONS`. Its worker was shown no other step, text or message.

    Args:
        journal: the journal.
        file: the recording, entered.
        limit: maximum number of runs, the latest first; `None` reads all.
        rows: questions with their kinds and right answers. Questions are matched by content.
        grader: scores the answers to `rows`, or chooses the grader of a row; `None` records answers without a
            score.

    Raises:
        JournalError: the journal cannot be read.
        RecordingInvalid: the file cannot be written.
        ConfigError: an answer cannot be graded with the grader.
    """
    known = {each.question.key: each for each in rows}
    summary = JournalSummary()
    async with journal:
        for run in await journal.runs(limit=limit):
            events = [entry.event for entry in await journal.read(run.run_id)]
            await _record(events, file, known, grader_of(grader), summary)
    return summary


async def _record(
    events: Sequence[Event],
    file: GrowingFile,
    known: Mapping[str, QuestionRow],
    grader: GraderOf,
    summary: JournalSummary,
) -> None:
    started = events[0]
    assert isinstance(started, RunStarted)
    for each in fold(events).result().rounds:
        steps = () if each.plan is None or each.plan.is_workflow else each.plan.calls
        for step, outcome in zip(steps, each.outcomes, strict=False):  # superseded events follow these events
            if why := _unfit(started, step, outcome):
                summary.left_out[why] += 1
                continue
            sample_id = f"{started.run_id}/{outcome.round}/{outcome.step}"
            if sample_id in file.ids:
                summary.already += 1
                continue
            text = started.query[0].text
            row = known.get(content_key(text))
            question = (
                row.question if row else Question(id=f"{KIND}/{content_key(text)[:12]}", kind=KIND, text=text)
            )
            await file.append(question, outcome.worker, await _sample(outcome, row, grader), sample_id)
            summary.recorded += 1


def _unfit(started: RunStarted, step: Step, outcome: Outcome) -> str:
    """Return why a step is left out; empty if it is not."""
    if outcome.status != "ok" or outcome.problem is not None:
        return "the step has no complete answer"
    if outcome.reused:
        return "the answer was reused from an earlier call"
    if len(started.query) != 1 or not isinstance(started.query[0].content, str) or started.tool_messages:
        return "the query is a conversation, or has attachments"
    if started.tools is not None or step.access:
        return "the worker was shown other steps, or tools"
    asked = without_instruction(step.subtask.replace("\\{{", "{{"))
    if content_key(asked) != content_key(started.query[0].text):
        return "the subtask is not the question"
    return ""


async def _sample(outcome: Outcome, row: QuestionRow | None, choose: GraderOf) -> Sample:
    usage = outcome.calls[-1].usage if outcome.calls else outcome.usage
    grader = None if row is None else choose(row.row)
    if row is None or grader is None:
        return Sample(text=outcome.text, usage=usage, latency_s=outcome.seconds)
    final, score = await grade(grader, row.row, outcome.text)
    return Sample(text=final, score=score, usage=usage, latency_s=outcome.seconds)
