"""Appends answers to a recording on disk. The file stays valid if the process is killed.

An answer counts as recorded when it is on the disk (fsync).
"""

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from podium.workers import Price
from podium_evals.recorded import DatedPrice, Provenance, Question, Sample
from podium_evals.recorded.recording_file import (
    header_line,
    price_line,
    question_line,
    read_recordings,
    sample_line,
)
from podium_evals.recording.appended_lines import AppendedLines


class GrowingFile:
    """A recording to append answers to. Use it as a context manager.

    Args:
        path: the file; created if it is missing.
        provenance: the source of the answers, for the first line of a new file.

    Raises:
        RecordingInvalid: on entering: the file is not a recording, or another process appends to it.
    """

    def __init__(self, path: Path | str, provenance: Provenance | None = None) -> None:
        self.path = Path(path)
        self.samples: Counter[tuple[str, str]] = Counter()
        """The number of samples, by content key and worker."""
        self.ids: set[str] = set()
        """The ids of the samples in the file."""
        self._provenance = provenance or Provenance(source=str(path))
        self._questions: set[str] = set()
        self._prices: dict[str, Price] = {}
        self._file = AppendedLines(self.path, begins='{"type": "recording"', what="recording")
        self._lock = anyio.Lock()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._file)
            self._begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _begin(self) -> None:
        if not self._file.lines:
            self._file.write([header_line(self._provenance)])
            return
        self._file.write([])  # a cut last line is removed before the file is read
        recorded = read_recordings(self.path)  # refuses a file that is not a recording
        self._prices = {each.worker: each.price for each in recorded.prices}
        for line in self._file.lines:
            row = json.loads(line)
            if row["type"] == "question":
                self._questions.add(_question_key(row))
            elif row["type"] == "sample":
                self.samples[row["question"], row["worker"]] += 1
                self.ids.add(row.get("id", ""))

    async def append(self, question: Question, worker: str, sample: Sample, sample_id: str = "") -> None:
        """Append an answer, and wait until it is on the disk.

        Args:
            question: the question, which is written before its first answer.
            worker: the name of the worker.
            sample: the answer.
            sample_id: an id by which the sample is recognised later, such as a run and a step; empty for
                none.

        Raises:
            RecordingInvalid: the file cannot be written.
        """
        async with self._lock:  # each question is written once
            lines = [] if question.key in self._questions else [question_line(question)]
            lines.append(sample_line(question, worker, sample, sample_id))
            await self._file.append(lines)
            self._questions.add(question.key)
            self.samples[question.key, worker] += 1
            self.ids.add(sample_id)

    async def append_price(self, price: DatedPrice) -> None:
        """Append the price of a worker, if it is another one than the last of this worker.

        Raises:
            RecordingInvalid: the file cannot be written.
        """
        async with self._lock:
            if self._prices.get(price.worker) != price.price:
                await self._file.append([price_line(price)])
                self._prices[price.worker] = price.price


def _question_key(row: dict[str, str]) -> str:
    return Question(id=row["id"], kind=row["kind"], text=row["text"]).key
