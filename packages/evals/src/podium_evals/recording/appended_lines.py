"""Appends lines to a file for one process at a time. The file stays valid if the process is killed.

When an append returns, its lines are on the disk (fsync). If the process was killed while it wrote a line,
this line is removed before the next append. A file whose name ends in `.gz` is gzipped: each append is a
member of its own.
"""

import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, Self

import anyio
import anyio.to_thread

from podium.config.source import why_unreadable, why_unwritable
from podium_evals.errors import RecordingInvalid

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, two processes can append to the same file
    fcntl = None  # type: ignore[assignment]


_AT_ONCE = 65_536
"""Bytes that are unpacked at once."""
_GZIP = b"\x1f\x8b"
"""The beginning of a gzipped file."""


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
        data = gzip.compress(data) if data and _is_gzipped(self.path) else data
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
        self.lines, self._whole = _whole_lines(self.path, self._file.read(), self._begins, self._what)


def read_lines(path: Path, *, begins: str, what: str) -> Sequence[bytes]:
    """Return the complete lines of a file, which are written as `AppendedLines` does.

    Raises:
        RecordingInvalid: the file cannot be read, is empty, or has another beginning.
    """
    try:
        lines, _ = _whole_lines(path, path.read_bytes(), begins.encode(), what)
    except OSError as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error
    if not lines:
        raise RecordingInvalid(f"{path} is not a {what}: it is empty")
    return lines


def _whole_lines(path: Path, data: bytes, begins: bytes, what: str) -> tuple[Sequence[bytes], int]:
    """Return the complete lines of a file, and the number of bytes that they take."""
    if data and _is_gzipped(path) != (data[:2] == _GZIP[: len(data)]):
        told = "a name with .gz at its end and content that is not gzipped"
        told = told if _is_gzipped(path) else "gzipped content and a name without .gz at its end"
        raise RecordingInvalid(f"{path} is not a {what}: it has {told}")
    whole, cut, size = _unpacked(data) if _is_gzipped(path) else (data, b"", len(data))
    begun = whole + cut
    if not begun.startswith(begins[: len(begun)]):
        raise RecordingInvalid(f"{path} is not a {what}: it does not begin with {begins.decode()}")
    lines = whole[: whole.rfind(b"\n") + 1]
    return lines.splitlines(), size - (0 if _is_gzipped(path) else len(whole) - len(lines))


def _is_gzipped(path: Path) -> bool:
    return path.suffix == ".gz"


def _unpacked(data: bytes) -> tuple[bytes, bytes, int]:
    """Return the content of the complete members and of a cut one, and the bytes of the former."""
    content, end, view = list[bytes](), 0, memoryview(data)
    while end < len(data):
        member, at, found = zlib.decompressobj(wbits=31), end, list[bytes]()
        try:
            while at < len(data) and not member.eof:
                found.append(member.decompress(view[at : at + _AT_ONCE]))
                at += _AT_ONCE
        except zlib.error:
            break
        if not member.eof:
            return b"".join(content), b"".join(found), end
        content += found
        end = min(at, len(data)) - len(member.unused_data)
    return b"".join(content), b"", end
