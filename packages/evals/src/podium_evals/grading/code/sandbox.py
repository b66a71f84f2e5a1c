"""Runs an untrusted program in a separate process: limited time, memory and output, and no API keys.

This protects against accidents, not against attacks: the program can read all files that the user can read.
On Linux systems that allow `unshare`, the program has no network.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from anyio import from_thread

from podium.errors import ConfigError

_LAUNCH = """
import os, resource, sys
seconds, memory, output = map(int, sys.argv[1:4])
for name, most in (("CPU", seconds), ("AS", memory), ("FSIZE", output), ("CORE", 0)):
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
    except (AttributeError, OSError, ValueError):
        pass
os.execv(sys.executable, [sys.executable, "-I", "-B", *sys.argv[4:]])
"""
_NO_NETWORK = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
_LOOK_S = 0.1
"""Seconds between two checks whether the caller was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """Limits for one process of a program."""

    seconds: float = 10.0
    memory_mb: int = 4096
    """Address space in bytes; systems other than Linux may not enforce this limit."""
    output_mb: int = 16
    """Maximum size in bytes of each file that the program writes, and of its output."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a program: its exit code, output and files."""

    code: int | None
    """The exit code; negative for a signal, `None` if the program was stopped at the time limit."""
    output: str
    """The text that the program wrote to stdout."""
    files: Mapping[str, str]
    """The contents of the wanted files, by name; missing files are left out."""


class Sandbox:
    """Runs untrusted programs with a Python interpreter.

    Args:
        python: the interpreter: a path, or a name on the PATH. Programs can import the libraries of this
            interpreter.
        limits: the limits of each process.

    Raises:
        ConfigError: there is no such interpreter, the interpreter does not run, or the system is not POSIX.
    """

    def __init__(self, python: str, limits: CodeLimits | None = None) -> None:
        found = shutil.which(python)
        if os.name != "posix":
            raise ConfigError(
                "code in answers is run on POSIX systems only, because other systems cannot limit its memory"
            )
        if found is None:
            raise ConfigError(f"there is no Python interpreter {python!r}")
        self.limits = limits or CodeLimits()
        self._python = found
        if self.run({"main.py": "print(6 * 7)"}, "main.py").output != "42\n":
            raise ConfigError(f"{python!r} does not run a program: is it Python 3?")

    @cached_property
    def cuts_network(self) -> bool:
        """Whether the network of programs is cut off."""
        if shutil.which(_NO_NETWORK[0]) is None:
            return False
        tried = subprocess.run([*_NO_NETWORK, "true"], capture_output=True, check=False, timeout=30)  # noqa: S603 - constant
        return tried.returncode == 0

    def run(
        self, files: Mapping[str, str], main: str, *, stdin: str = "", wanted: tuple[str, ...] = ()
    ) -> Ended:
        """Run one program, and remove the files that it wrote.

        In a worker thread of anyio, cancelling the caller stops the program.

        Args:
            files: texts of files in the program's folder, by name.
            main: the file that is run.
            stdin: the text for the program's stdin.
            wanted: the names of the files to return.
        """
        with TemporaryDirectory(prefix="podium-code-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            for path, text in files.items():
                (folder / path).write_text(text, "utf-8", errors="surrogatepass", newline="")
            code, output = self._run(folder, main, stdin)
            most = self.limits.output_mb * 2**20
            kept = {path: _text(folder / path, most) for path in wanted if (folder / path).is_file()}
        return Ended(code, output, kept)

    def _run(self, folder: Path, main: str, stdin: str) -> tuple[int | None, str]:
        limits = self.limits
        bounds = (int(limits.seconds) + 1, limits.memory_mb * 2**20, limits.output_mb * 2**20)
        command = [
            *(_NO_NETWORK if self.cuts_network else ()),
            *(self._python, "-I", "-S", "-c", _LAUNCH, *map(str, bounds), main),
        ]
        given, told = folder / ".stdin", folder / ".stdout"
        given.write_text(stdin, "utf-8", errors="surrogatepass", newline="")
        with given.open("rb") as source, told.open("wb") as target:
            process = subprocess.Popen(  # noqa: S603 - the caller wants the program to run
                command,
                stdin=source,
                stdout=target,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=_environment(folder),
                start_new_session=True,
            )
            try:
                code = _wait(process, limits.seconds)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return code, _text(told, limits.output_mb * 2**20)


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a program. It has no variables of the user, and therefore no keys."""
    return {
        "PATH": os.defpath,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """Return the exit code; `None` after the time limit."""
    until = monotonic() + seconds
    while (left := until - monotonic()) > 0:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, _LOOK_S))
        with suppress(RuntimeError):  # this thread was not started by an event loop
            from_thread.check_cancelled()
    return None


def _text(path: Path, most: int) -> str:
    with path.open("rb") as file:
        return file.read(most).decode("utf-8", "replace")
