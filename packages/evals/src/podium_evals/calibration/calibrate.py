"""Asks the workers of a pool a few questions of each kind, and measures their rates of right answers.

Each answer is recorded when it arrives. A stopped calibration continues later, and pays for no answer twice.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from podium.budget import Limits
from podium.execution import Retry
from podium.workers import Worker
from podium.workers.rates import KindEntry, MeasuredFile, identity_of
from podium_evals.calibration.allocation import asked_next
from podium_evals.calibration.measured_rates import kind_entry, still_valid, tallies_of, with_rates
from podium_evals.calibration.rates import Tally, priors
from podium_evals.errors import RecordingInvalid
from podium_evals.grading import Grader
from podium_evals.recorded import Provenance, Sample, read_recordings
from podium_evals.recording import GrowingFile, QuestionRow, Recorder, Summary

Kinds = dict[str, list[QuestionRow]]
OnTurn = Callable[[int, int, int], object]
"""Called with the number of a question (from 1), the number of questions, and the number of calls for the
question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The result of a calibration: the measured rates, and what the calls spent."""

    measured: MeasuredFile
    """All known rates: those from before, and the new ones."""
    kinds: tuple[str, ...]
    """The kinds of the questions."""
    stale: tuple[tuple[str, str], ...]
    """Worker and kind of each earlier rate that was removed, because the worker's model, server or sampling
    has changed."""
    summary: Summary
    """The number of calls, what they spent, and failures."""
    reused: int
    """The number of answers that were recorded before."""


class Calibrator:
    """Measures the rates of workers on kinds of questions.

    The first question of each kind goes to all workers. Each further question goes only to workers that are
    still likely to be the best (`podium_evals.calibration.allocation`).

    Args:
        workers: the workers to measure.
        grader: scores answers.
        known: rates that were measured before. They are kept, and they are the priors on new kinds.
        limits: `calls` and `cost` bound all calls together, `attempt_seconds` each call.
        ask_all: ask every worker every question.
        at_once: maximum calls at the same time.
        retry: which failed calls are retried.
        on_turn: called before each question is asked.
    """

    def __init__(  # noqa: PLR0913 - all but two have defaults
        self,
        workers: Sequence[Worker],
        grader: Grader,
        *,
        known: MeasuredFile | None = None,
        limits: Limits | None = None,
        ask_all: bool = False,
        at_once: int = 8,
        retry: Retry | None = None,
        on_turn: OnTurn = lambda _number, _of, _calls: None,
    ) -> None:
        self._workers = {worker.card.name: worker for worker in workers}
        # The whole answer is recorded, so that it can be graded again with another grader or right answer.
        self._grader = Grader(lambda text: text, grader, is_slow=grader.is_slow)
        self._recorder = partial(
            Recorder, workers=workers, limits=limits, at_once=at_once, retry=retry, grader=self._grader
        )
        self._identities = {name: identity_of(worker) for name, worker in self._workers.items()}
        self._known, self._stale = still_valid(known or MeasuredFile(), self._identities)
        self._asks_all = ask_all or len(workers) == 1
        self._on_turn = on_turn
        self._samples: dict[tuple[str, str], Sample] = {}
        self._out: set[tuple[str, str]] = set()

    async def measure(self, rows: Sequence[QuestionRow], answers: Path | str) -> Calibration:
        """Ask the questions whose answers are missing, and return the rates.

        Args:
            rows: the questions; the order within a kind is the order in which they are asked.
            answers: the recording of the answers. Calls with a recorded answer are not repeated.

        Raises:
            ConfigError: an answer cannot be graded, or a worker is a conductor.
            RecordingInvalid: there is no question, or the file of answers cannot be written.
        """
        if not rows:
            raise RecordingInvalid("there is no question to ask")
        for row in rows:
            self._grader(row.row, "?")  # before the first call: can all questions be graded?
        kinds: Kinds = {}
        for row in rows:
            kinds.setdefault(row.question.kind, []).append(row)
        with GrowingFile(answers, Provenance(source="podium evals calibrate")) as file:
            self._samples = {
                (each.question.key, each.worker): each.samples[-1] for each in read_recordings(answers)
            }
            keys, names = {row.question.key for row in rows}, set(map(self._name_of, self._workers.values()))
            reused = sum(key in keys and name in names for key, name in self._samples)
            recorder = self._recorder(file, on_sample=self._note, name_of=self._name_of)
            summary = await self._ask(recorder, kinds)
        return Calibration(
            measured=self._measured(kinds),
            kinds=tuple(kinds),
            stale=self._stale,
            summary=summary,
            reused=reused,
        )

    async def _ask(self, recorder: Recorder, kinds: Kinds) -> Summary:
        """Ask question by question."""
        summary = await recorder.record([])
        turns = max(map(len, kinds.values()))
        for turn in range(turns):
            due = {
                (rows[turn].question.key, name): (kind, name)
                for kind, rows in kinds.items()
                if turn < len(rows)
                for name in self._due(kinds, kind, turn)
            }
            missing = {pair: out for pair, out in due.items() if self._sample(*pair) is None}
            if missing:
                self._on_turn(turn + 1, turns, len(missing))
                asked = [rows[turn] for rows in kinds.values() if turn < len(rows)]
                summary = await recorder.record(asked, wanted=partial(_is_in, missing))
            if summary.stopped:
                break
            self._out |= {out for pair, out in missing.items() if self._sample(*pair) is None}
        return summary

    def _due(self, kinds: Kinds, kind: str, turn: int) -> Iterable[str]:
        """Return the workers that are asked the next question of a kind.

        The result depends only on the answers to the earlier questions. A continued calibration therefore
        asks the same workers.
        """
        names = [name for name in self._workers if (kind, name) not in self._out]
        if self._asks_all or not names:
            return names
        tallies = tallies_of(self._known) | {each: self._tallies(rows[:turn]) for each, rows in kinds.items()}
        found = [tallies[kind].get(name, Tally()) for name in names]
        asked = asked_next(
            priors(names, kind, tallies),
            np.asarray([tally.right for tally in found]),
            np.asarray([tally.answers for tally in found], dtype=np.float64),
        )
        return [name for name, is_asked in zip(names, asked, strict=True) if is_asked]

    def _tallies(self, rows: Sequence[QuestionRow]) -> dict[str, Tally]:
        found: dict[str, Tally] = {}
        for name in self._workers:
            for row in rows:
                sample = self._sample(row.question.key, name)
                if sample is not None:
                    score = self._grader(row.row, sample.text) if sample.text.strip() else 0.0
                    found[name] = found.get(name, Tally()).plus(score)
        return found

    def _measured(self, kinds: Kinds) -> MeasuredFile:
        found: dict[str, KindEntry] = dict(self._known.kinds)
        for kind, rows in kinds.items():
            samples = {
                worker: [
                    sample
                    for row in rows
                    if (sample := self._sample(row.question.key, worker.card.name)) is not None
                ]
                for worker in self._workers.values()
            }
            entry = kind_entry(rows, samples, self._tallies(rows))
            found.pop(kind, None)
            if entry is not None:
                found[kind] = entry
        return with_rates(MeasuredFile(kinds=found))

    def _note(self, row: QuestionRow, name: str, sample: Sample) -> None:
        self._samples[row.question.key, name] = sample

    def _sample(self, key: str, worker: str) -> Sample | None:
        return self._samples.get((key, self._name_of(self._workers[worker])))

    def _name_of(self, worker: Worker) -> str:
        """Return the name under which the worker's answers are recorded. It changes with the model."""
        name, identity = worker.card.name, self._identities[worker.card.name]
        return f"{name} ({identity})" if identity else name


def _is_in(pairs: Container[tuple[str, str]], row: QuestionRow, worker: Worker) -> bool:
    return (row.question.key, worker.card.name) in pairs
