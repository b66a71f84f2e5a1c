"""Finds the recent answers of each worker, from a file with scores of runs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

from podium.config import why_unreadable
from podium.errors import JournalBroken
from podium.journal import Journal, RunRow
from podium.planners import kind_of
from podium.resume import result_of
from podium.types import RunStarted
from podium.workers import Kind, MeasuredFile
from podium_evals.calibration.rates import Tally
from podium_evals.errors import RecordingInvalid


@dataclass(frozen=True, slots=True)
class RunScore:
    """The score that a user or a program gave to the answer of a run."""

    run: str
    """The id of the run, or the beginning of the id."""
    score: float
    """0 to 1."""
    kind: str | None = None
    """The kind of the question; `None` means that the kind is found from the text."""


@dataclass(slots=True)
class RecentAnswers:
    """The scored answers of a journal."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    """The scored answers, by worker and kind."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of scores that were left out, by reason."""


def read_scores(path: Path | str) -> Sequence[RunScore]:
    """Read a file with a JSON object on each line: `run`, `score` (0 to 1) and optionally `kind`.

    If a run has several scores, the last one counts.

    Raises:
        RecordingInvalid: the file cannot be read, or a line is not a score.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error
    found: dict[str, RunScore] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            score = _score(line, f"{path}, line {number}")
            found[score.run] = score
    return tuple(found.values())


def _score(line: str, where: str) -> RunScore:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RecordingInvalid(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(run := row.get("run"), str) or not run:
        raise RecordingInvalid(f"{where} has no run id under `run`")
    score, kind = row.get("score"), row.get("kind")
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise RecordingInvalid(f"{where}: the score {score!r:.40} is not a number from 0 to 1")
    if not isinstance(kind, str | None):
        raise RecordingInvalid(f"{where}: the kind {kind!r:.40} is not a text")
    return RunScore(run, float(score), kind)


async def recent_answers(
    journal: Journal, scores: Sequence[RunScore], measured: MeasuredFile
) -> RecentAnswers:
    """Return the scored answers in a journal that are newer than the measured rates of their kinds.

    Only runs with a plan of one step count, because their answer is the answer of one worker.

    Args:
        journal: the journal.
        scores: the scores.
        measured: the rates.

    Raises:
        JournalError: the journal cannot be read.
    """
    kinds = tuple(Kind(name, entry.questions) for name, entry in measured.kinds.items())
    found = RecentAnswers()
    async with journal:
        for score in scores:
            rows = await journal.runs(limit=2, nested=True, prefix=score.run)
            answer = await _answer(journal, score, rows, kinds)
            if isinstance(answer, str):
                found.left_out[answer] += 1
                continue
            worker, kind, day = answer
            entry = measured.kinds[kind]
            if worker not in entry.rates:
                found.left_out["the worker was not measured on the kind"] += 1
            elif day < entry.measured_on:
                found.left_out["the run began before the rate was measured"] += 1
            else:
                before = found.tallies.get((worker, kind), Tally())
                found.tallies[worker, kind] = before.plus(score.score)
    return found


async def _answer(
    journal: Journal, score: RunScore, rows: Sequence[RunRow], kinds: Sequence[Kind]
) -> tuple[str, str, date] | str:
    """Return a run's worker, kind and first day; or the reason why the run is left out."""
    if len(rows) != 1 and score.run not in [row.run_id for row in rows]:
        return "several runs begin with this id" if rows else "the journal has no such run"
    row = next((row for row in rows if row.run_id == score.run), rows[0])
    try:
        events = [entry.event for entry in await journal.read(row.run_id)]
    except JournalBroken:
        return "the record cannot be read"
    started = events[0]
    assert isinstance(started, RunStarted)
    last = result_of(events).rounds[-1:]
    if not last or last[0].plan is None or len(last[0].plan.steps) != 1:
        return "the plan has several steps, or none"
    outcome = last[0].outcomes[0]
    if outcome.status != "ok":
        return "the step failed"
    kind = _kind(score, started, kinds)
    if kind is None:
        return "the kind was not measured"
    return outcome.worker, kind, datetime.fromtimestamp(row.began, UTC).date()


def _kind(score: RunScore, started: RunStarted, kinds: Sequence[Kind]) -> str | None:
    if score.kind is not None:
        names: Mapping[str, Kind] = {kind.name: kind for kind in kinds}
        return score.kind if score.kind in names else None
    found = kind_of(started.query[-1].text, kinds) if started.query else None
    return None if found is None else found.name
