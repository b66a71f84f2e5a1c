"""Processes of programs: each is a group of its own, which ends with the call, and with Podium."""

import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import anyio
from anyio.abc import Process

from podium.errors import WorkerRefused
from podium.usage import Usage

MOST_BYTES = 16 * 2**20
"""Maximum bytes of a process's output, without the lines that are not read."""
_TAIL_BYTES = 4096
"""The bytes of stderr that are kept."""
_GRACE_SECONDS, _DRAIN_SECONDS = 5.0, 1.0
"""For a process to end after SIGTERM, and to read what it wrote after it has ended."""
_SCRIPT = (
    '{ trap "" TERM; read -r _ <"$0"; kill -TERM 0; sleep 5; kill -KILL 0; } </dev/null >/dev/null 2>&1 & '
    'exec "$@"'
)
_TIED = ("/bin/sh", "-c", _SCRIPT)
"""Starts a program whose group ends when the other end of the pipe `$0` is closed, also by a SIGKILL."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a program says of its work."""

    text: str = ""
    usage: Usage | None = None
    cost: float | None = None
    fault: str = ""
    """Why it failed; empty if it did not."""
    denied: str = ""
    """The tools that it was not permitted to use."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int
    output: str
    errors: str
    is_too_long: bool


@asynccontextmanager
async def started(
    command: Sequence[str], folder: Path, env: Mapping[str, str], worker: str
) -> AsyncIterator[Process]:
    """Start a program in a process group of its own, which ends with the block, and with Podium."""
    told = f"worker {worker!r}: the program {command[0]!r}"
    if which(command[0], path=env.get("PATH")) is None:
        raise WorkerRefused(f"{told} was not found: install it, or write its path")
    theirs, ours = os.pipe()
    try:
        tied = [*_TIED, f"/dev/fd/{theirs}", *command]
        try:
            with anyio.CancelScope(shield=True):  # a cancelled start would leave the process to nobody
                process = await anyio.open_process(
                    tied, cwd=folder, env=env, start_new_session=True, pass_fds=[theirs]
                )
        except OSError as error:
            raise WorkerRefused(f"{told} cannot be started: {error}") from error
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
    finally:
        os.close(theirs)
        os.close(ours)


async def _end(process: Process) -> None:
    """End the group of a process that runs: SIGTERM, and SIGKILL for what is left after a while."""
    if process.returncode is None:
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
        _signal(process, signal.SIGKILL)
    await process.aclose()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS: no process of the group is left
        os.killpg(process.pid, number)


async def talk(process: Process, prompt: str, keeps: Sequence[bytes] = ()) -> Ended:
    """Write the prompt, and read what a process writes until it ends.

    Args:
        process: the process.
        prompt: its stdin.
        keeps: parts of the lines of its output that are read; empty for all lines.
    """
    output, errors = _Output(keeps), bytearray()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write, process, prompt)
        tasks.start_soon(output.read, process)
        tasks.start_soon(read_tail, process, errors)
        code = await process.wait()
        _signal(process, signal.SIGKILL)  # what it left behind, which may hold the streams open
        tasks.cancel_scope.deadline = anyio.current_time() + _DRAIN_SECONDS
    text = output.kept.decode("utf-8", "replace")
    return Ended(code, text, errors.decode("utf-8", "replace").strip(), output.is_too_long)


async def _write(process: Process, prompt: str) -> None:
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it does not read all of it
        await process.stdin.send(prompt.encode("utf-8", "replace"))
    await process.stdin.aclose()


async def read_tail(process: Process, tail: bytearray) -> None:
    """Read stderr, and keep its end."""
    assert process.stderr is not None
    async for chunk in process.stderr:
        tail += chunk
        del tail[:-_TAIL_BYTES]


class _Output:
    """The lines of a process's output that are read."""

    def __init__(self, keeps: Sequence[bytes]) -> None:
        self._keeps = keeps
        self.kept = bytearray()
        self.is_too_long = False

    async def read(self, process: Process) -> None:
        """Read until the end; a process that writes too much is killed."""
        assert process.stdout is not None
        line = b""
        async for chunk in process.stdout:
            *lines, line = (line + chunk).split(b"\n") if self._keeps else (chunk, b"")
            for each in lines:
                self._keep(each)
            if len(self.kept) + len(line) > MOST_BYTES:
                self.is_too_long = True
                _signal(process, signal.SIGKILL)
                return
        self._keep(line)

    def _keep(self, line: bytes) -> None:
        if not self._keeps:
            self.kept += line
        elif any(part in line for part in self._keeps):
            self.kept += line + b"\n"
