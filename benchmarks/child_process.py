"""Child processes that read a line and answer it with a JSON object."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from podium.errors import PodiumError

ANSWER_SECONDS = 180.0
"""Timeout for the answer to a line, in seconds."""
_ROOT = Path(__file__).parents[1]
_ENVIRONMENT = {
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "NO_PROXY": "127.0.0.1",
    "no_proxy": "127.0.0.1",
}
_LONGEST_LINE = 1 << 20


class Child:
    """A running process that answers each line with a JSON object."""

    def __init__(self, name: str, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._name = name
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)

    async def ask(self, line: str) -> dict[str, Any]:
        """Write a line and return the answer; errors are as for `read`."""
        await self.tell(line)
        return await self.read()

    async def tell(self, line: str) -> None:
        """Write a line."""
        await self._stdin.send(f"{line}\n".encode())

    async def read(self) -> dict[str, Any]:
        """Return the next object.

        Raises:
            PodiumError: the process ended, or took longer than `ANSWER_SECONDS`.
        """
        try:
            with anyio.fail_after(ANSWER_SECONDS):
                line = await self._stdout.receive_until(b"\n", _LONGEST_LINE)
        except (anyio.IncompleteRead, anyio.EndOfStream) as exc:
            raise PodiumError(f"{self._name} ended early; its error output is above") from exc
        except TimeoutError as exc:
            raise PodiumError(f"{self._name} did not answer within {ANSWER_SECONDS:g} s") from exc
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def start_child(
    module: str, *arguments: str, python: str = sys.executable
) -> AsyncGenerator[Child, None]:
    """Run a module of `benchmarks`, such as `overhead.worker_server`, as a process until the block ends.

    The process is then killed.
    """
    process = await anyio.open_process(
        [python, "-m", f"benchmarks.{module}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        cwd=_ROOT,
        env=os.environ | _ENVIRONMENT,
    )
    try:
        yield Child(module, process)
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()
