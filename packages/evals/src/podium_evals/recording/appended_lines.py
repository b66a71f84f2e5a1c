"""Appends lines to a file for one process at a time. The file stays valid if the process is killed.

When an append returns, its lines are on the disk (fsync). If the process was killed while it wrote a line,
this line is removed before the next append.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, Self

import anyio
import anyio.to_thread

from podium.config.source import why_unwritable
from podium_evals.errors import RecordingInvalid

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, two processes can append to the same file
    fcntl = None  # type: ignore[assignment]


class AppendedLines:
    """A file of lines that is open for appending. Use it as a context manager.

    Args:
        path: the file; created if it is missing.
        begins: the beginning of the first line. A file with another beginning is refused and not changed.
        what: the kind of file, for error messages.

    Raises:
        RecordingInvalid: on entering: the file has another beginning or cannot be written, or another process
            appends to it.
    """

    def __init__(self, path: Path, *, begins: str, what: str) -> None:
        self.path = path
        self._begins, self._what = begins.encode(), what
        self.lines: Sequence[bytes] = ()
        """The lines that were in the file when it was opened."""
        self._whole: int | None = None
        """Number of bytes of the complete lines, until an incomplete last line is removed."""
        self._lock = anyio.Lock()

    def __enter__(self) -> Self:
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
        """Append lines, which have line ends, and wait until they are on the disk.

        Raises:
            RecordingInvalid: the file cannot be written.
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
            raise RecordingInvalid(f"{self.path} cannot be written: {why_unwritable(error)}") from error

    async def append(self, lines: Sequence[str]) -> None:
        """Append lines like `write`, but in another thread. The lines of two calls do not mix.

        Raises:
            RecordingInvalid: the file cannot be written.
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
        if not S_ISREG(os.fstat(self._file.fileno()).st_mode):  # a device may have no end
            raise RecordingInvalid(f"{self.path} cannot be written: it is not a regular file")
        self._lock_file()
        self._file.seek(0)
        content = self._file.read()
        if not content.startswith(self._begins[: len(content)]):
            told = self._begins.decode()
            raise RecordingInvalid(f"{self.path} is not a {self._what}: it does not begin with {told}")
        whole = content[: content.rfind(b"\n") + 1]
        self._whole = len(whole)
        self.lines = whole.splitlines()
