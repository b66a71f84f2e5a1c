"""Logs the stderr of a server's process, and keeps its last lines for errors."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_KEPT = 2000
"""Maximum characters to keep."""
_LOG = logging.getLogger("podium.mcp")


class StderrTail:
    """Reads the stderr of a process.

    Args:
        name: the server's name, for the log records.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = ""

    @property
    def last_lines(self) -> str:
        """The last lines that the process wrote; empty if it wrote none."""
        return "\n".join(self._kept.strip().splitlines()[-5:])

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """Yield the stderr file for the process; the caller closes it after the start of the process."""
        if sys.platform == "win32":  # its event loop cannot wait for a pipe
            yield sys.stderr
            return
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._read, reading, loop)
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as file:
                yield file
        finally:
            self._read(reading, loop)
            loop.remove_reader(reading)
            os.close(reading)

    def _read(self, reading: int, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(BlockingIOError):
            while data := os.read(reading, 65536):
                text = data.decode(errors="replace")
                self._kept = (self._kept + text)[-_KEPT:]
                for line in text.splitlines():
                    _LOG.info("server %r: %s", self._name, line)
            loop.remove_reader(reading)  # the process closed it
