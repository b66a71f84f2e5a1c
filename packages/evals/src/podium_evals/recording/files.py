"""The files of a recording: questions, answers to append to, and lines that a kill does not damage.

When an append returns, its lines are on the disk (fsync). If the process was killed while it wrote a line,
this line is removed before the next append.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import Any, BinaryIO, Self

import anyio
import anyio.to_thread

from podium.config.source import why_unreadable, why_unwritable
from podium.workers import Price
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import DatedPrice, Provenance, Question, Sample, with_options
from podium_evals.recorded.recording_file import (
    header_line,
    price_line,
    question_line,
    read_recordings,
    sample_line,
)

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, two processes can append to the same file
    fcntl = None  # type: ignore[assignment]


class AppendedLines:
    """A file of lines that is open for appending. Use it as a context manager."""

    def __init__(self, path: Path, *, begins: str, what: str) -> None:
        self.path = path
        self._begins, self._what = begins.encode(), what
        self.lines: Sequence[bytes] = ()
        """The lines that were in the file when it was opened."""
        self._whole: int | None = None
        """Number of bytes of the complete lines, until an incomplete last line is removed."""
        self._lock = anyio.Lock()

    def __enter__(self) -> Self:
        if self.path.suffix == ".gz":
            raise RecordingInvalid(f"{self.path} cannot be appended to: choose a name without .gz at its end")
        try:
            self._file: BinaryIO = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise RecordingInvalid(f"{self.path} cannot be written: {why_unwritable(error)}") from error
        try:
            self._read()
        except BaseException:  # raised again: the file is also closed after an interrupt
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, which have line ends, and wait until they are on the disk."""
        data = "".join(lines).encode()
        try:
            if self._whole is not None:
                self._file.truncate(self._whole)
                self._whole = None
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RecordingInvalid(f"{self.path} cannot be written: {why_unwritable(error)}") from error

    async def append(self, lines: Sequence[str]) -> None:
        """Append lines like `write`, but in another thread. The lines of two calls do not mix."""
        async with self._lock:
            await anyio.to_thread.run_sync(self.write, lines)

    def _lock_file(self) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RecordingInvalid(f"{self.path}: another process appends to it") from error

    def _read(self) -> None:
        if not S_ISREG(os.fstat(self._file.fileno()).st_mode):  # a device may have no end
            raise RecordingInvalid(f"{self.path} cannot be written: it is not a regular file")
        self._lock_file()
        self._file.seek(0)
        self.lines, self._whole = _whole_lines(self.path, self._file.read(), self._begins, self._what)


def read_lines(path: Path, *, begins: str, what: str) -> Sequence[bytes]:
    """Return the complete lines of a file, which are written as `AppendedLines` does."""
    try:
        lines, _ = _whole_lines(path, path.read_bytes(), begins.encode(), what)
    except OSError as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error
    if not lines:
        raise RecordingInvalid(f"{path} is not a {what}: it is empty")
    return lines


def _whole_lines(path: Path, data: bytes, begins: bytes, what: str) -> tuple[Sequence[bytes], int]:
    """Return the complete lines of a file, and the number of bytes that they take."""
    if not data.startswith(begins[: len(data)]):
        raise RecordingInvalid(f"{path} is not a {what}: it does not begin with {begins.decode()}")
    whole = data[: data.rfind(b"\n") + 1]
    return whole.splitlines(), len(whole)


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

    async def append(self, question: Question, worker: str, sample: Sample) -> None:
        """Append an answer, after its question if this is the first, and wait until it is on the disk.

        Raises:
            RecordingInvalid: the file cannot be written.
        """
        async with self._lock:  # each question is written once
            lines = [] if question.key in self._questions else [question_line(question)]
            lines.append(sample_line(question, worker, sample))
            await self._file.append(lines)
            self._questions.add(question.key)
            self.samples[question.key, worker] += 1

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


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question, and its whole row in the file."""

    question: Question
    row: Mapping[str, Any]
    """The row of the file, which graders read."""


def read_questions(path: Path | str) -> Sequence[QuestionRow]:
    """Read a file with a JSON object on each line.

    The field `question` is required. `answer`, `kind`, `level` and `id` are optional. So are `options` (of a
    multiple-choice question, in the order of their letters) and `grader` (the name of a grader). Graders may
    need further fields, such as `tests`. Of questions with the same content, only the first is used.

    Raises:
        RecordingInvalid: the file cannot be read or has no questions, or a line is not a question.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # JSON texts may contain other line separators
    except (OSError, ValueError) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error
    rows = [
        _question_row(line, f"{path.stem}/{number}", path)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    found = dict[str, QuestionRow]()
    for each in rows:
        found.setdefault(each.question.key, each)
    if not found:
        raise RecordingInvalid(
            f"{path} has no questions: write one JSON object with a `question` on each line"
        )
    return tuple(found.values())


def _question_row(line: str, name: str, path: Path) -> QuestionRow:
    where = f"{path}, line {name.rpartition('/')[2]}"
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RecordingInvalid(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(text := row.get("question"), str) or not text.strip():
        raise RecordingInvalid(f"{where} has no text under `question`")
    options, answer = row.get("options"), row.get("answer")
    question = Question(
        id=str(row.get("id", name)),
        kind=str(row.get("kind", path.stem)),
        level=str(row.get("level", "")),
        text=with_options(text, options) if isinstance(options, list) else text,
        expected=None if answer is None else str(answer),
    )
    return QuestionRow(question, row)
