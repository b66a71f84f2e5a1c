"""A file of lines that grows, survives the death of its process, and has one writer at a time.

Each append is on the disk (fsync) before it returns. A line that was cut when the process died is removed
before the next line is appended.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import anyio
import anyio.to_thread

from podium_evals.errors import RecordingInvalid

try:
    import fcntl
except ImportError:  # Windows has no locks of this kind: there, two processes are not kept apart
    fcntl = None  # type: ignore[assignment]


class AppendedLines:
    """The file, open for appending; use it as a context manager.

    Args:
        path: the file, which is made where it is missing.
        begins: how the first line begins; a file that begins with something else is not touched.
        what: the kind of file, for messages.

    Raises:
        RecordingInvalid: on entering: the file is something else, it cannot be written, or another process
            appends to it.
    """

    def __init__(self, path: Path, *, begins: str, what: str) -> None:
        self.path = path
        self._begins, self._what = begins.encode(), what
        self.lines: Sequence[bytes] = ()
        """The lines that the file had when it was opened."""
        self._whole: int | None = None
        """Bytes of the whole lines, until a cut line after them is removed."""
        self._lock = anyio.Lock()

    def __enter__(self) -> Self:
        try:
            self._file: BinaryIO = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise RecordingInvalid(f"{self.path} cannot be written: {error}") from error
        try:
            self._lock_file()
            self._read()
        except BaseException:  # raised again: the file is closed after an interrupt, too
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, each with its end, and wait until they are on the disk.

        Raises:
            RecordingInvalid: the disk does not take them.
        """
        data = "".join(lines).encode()
        try:
            if self._whole is not None:
                self._file.truncate(self._whole)
                self._whole = None
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RecordingInvalid(f"{self.path} cannot be written: {error}") from error

    async def append(self, lines: Sequence[str]) -> None:
        """Append lines as `write` does, in another thread. Lines of two calls do not mix.

        Raises:
            RecordingInvalid: the disk does not take them.
        """
        async with self._lock:
            await anyio.to_thread.run_sync(self.write, lines)

    def _lock_file(self) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RecordingInvalid(f"{self.path}: another process appends to it") from error

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        if not content.startswith(self._begins[: len(content)]):
            told = self._begins.decode()
            raise RecordingInvalid(f"{self.path} is not a {self._what}: it does not begin with {told}")
        whole = content[: content.rfind(b"\n") + 1]
        self._whole = len(whole)
        self.lines = whole.splitlines()
