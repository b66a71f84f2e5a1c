"""A recording on disk that grows answer by answer, and survives the death of its process.

Each answer is on the disk (fsync) before the next call is counted as recorded. A line that was cut when the
process died is removed when the file is opened again.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import anyio
import anyio.to_thread

from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import Provenance, Question, Sample
from podium_evals.recorded.recording_file import header_line, question_line, read_recordings, sample_line

try:
    import fcntl
except ImportError:  # Windows has no locks of this kind: there, two processes are not kept apart
    fcntl = None  # type: ignore[assignment]


class GrowingFile:
    """A recording that is appended to; use it as a context manager.

    Args:
        path: the file, which is made where it is missing.
        provenance: what the first line of a new file says.

    Raises:
        RecordingInvalid: on entering: the file is something else, or another process appends to it.
    """

    def __init__(self, path: Path | str, provenance: Provenance | None = None) -> None:
        self.path = Path(path)
        self.samples: Counter[tuple[str, str]] = Counter()
        """The number of samples by key of the question and worker."""
        self.ids: set[str] = set()
        """The ids that samples were appended with."""
        self._provenance = provenance or Provenance(source=str(path))
        self._questions: set[str] = set()
        self._lock = anyio.Lock()

    def __enter__(self) -> Self:
        try:
            self._file: BinaryIO = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise RecordingInvalid(f"{self.path} cannot be written: {error}") from error
        try:
            self._begin()
        except BaseException:  # raised again: the file is closed after an interrupt, too
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _begin(self) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RecordingInvalid(f"{self.path}: another process appends to it") from error
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        if not whole:
            self._write([header_line(self._provenance)])
            return
        read_recordings(self.path)  # refuses any other file
        for line in whole.splitlines():
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
            sample_id: what makes it known again, such as a run and a step; empty for none.

        Raises:
            RecordingInvalid: the disk does not take it.
        """
        async with self._lock:  # one line for each question; lines do not mix
            lines = [] if question.key in self._questions else [question_line(question)]
            lines.append(sample_line(question, worker, sample, sample_id))
            try:
                await anyio.to_thread.run_sync(self._write, lines)
            except OSError as error:
                raise RecordingInvalid(f"{self.path} cannot be written: {error}") from error
            self._questions.add(question.key)
            self.samples[question.key, worker] += 1
            self.ids.add(sample_id)

    def _write(self, lines: Sequence[str]) -> None:
        data = "".join(lines).encode()
        while data:
            data = data[self._file.write(data) :]
        os.fsync(self._file.fileno())


def _question_key(row: dict[str, str]) -> str:
    return Question(id=row["id"], kind=row["kind"], text=row["text"]).key
