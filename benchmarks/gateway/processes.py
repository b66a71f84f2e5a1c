"""Processes of the benchmark: servers on loopback."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from podium.errors import PodiumError

_START_SECONDS = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A running server.

    Args:
        process: its process.
        url: its base URL.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.process = process
        self.url = url

    @property
    def cpu_s(self) -> float:
        """CPU time of the process so far, in seconds."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / _TICKS

    @property
    def resident_mb(self) -> float:
        """Resident memory of the process, in MB of 1,000,000 bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def started(
    command: Sequence[str | Path],
    *,
    core: int | None = None,
    path: str,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[Server]:
    """Run a server until the block ends.

    Args:
        command: the command. `{port}` in it stands for a free port.
        core: number of its only core; `None` for all cores.
        path: path of the base URL, as in `/v1`.
        env: more environment variables.
        folder: the working directory.

    Raises:
        PodiumError: the server does not start.
    """
    port = free_port()
    words = [str(word).replace("{port}", str(port)) for word in command]
    known = os.environ | {"NO_PROXY": "127.0.0.1", **(env or {})}
    with subprocess.Popen(  # noqa: S603 - commands of the benchmark
        words if core is None else ["taskset", "-c", str(core), *words],
        cwd=folder,
        env=known,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _await_port(process, port, words)
            yield Server(process, f"http://127.0.0.1:{port}{path}")
        finally:
            process.kill()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _await_port(process: "subprocess.Popen[bytes]", port: int, words: Sequence[str]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise PodiumError(f"a server ended while it started: {' '.join(words)}")
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise PodiumError(f"a server did not listen within {_START_SECONDS:g} s: {' '.join(words)}")
