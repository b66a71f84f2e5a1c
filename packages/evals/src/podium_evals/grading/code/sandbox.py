"""Runs untrusted programs with bubblewrap: own mounts, no network, one process, and limits.

A program sees its interpreter, the system's libraries, its own files and a folder in memory. A filter of
system calls lets it start threads, but no processes.
"""

import json
import os
import platform
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from time import monotonic

from anyio import from_thread

from podium.errors import ConfigError

_START_S = 60.0
"""Seconds in which the interpreter must run its first program."""
_LOOK_S = 0.1
"""Seconds between two checks whether the caller was cancelled."""
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/localtime")
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "random", "urandom"))
_PATHS = "import json, sys; print(json.dumps([sys.executable, sys.prefix, sys.base_prefix, *sys.path[1:]]))"
_LIMIT = """
import os, resource, sys
seconds, memory, output = map(int, sys.argv[1:4])
for name, most in (("CPU", seconds), ("AS", memory), ("FSIZE", output), ("CORE", 0), ("NOFILE", 64)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
os.execv(sys.executable, [sys.executable, "-I", "-B", *sys.argv[4:]])
"""
_MACHINES: Mapping[str, tuple[int, int, Sequence[int]]] = {
    "x86_64": (0xC000003E, 56, (57, 58, 272, 29)),
    "aarch64": (0xC00000B7, 220, (97, 194)),
}
"""For each machine: the kernel's number for it, the number of `clone`, and those of `fork` and `vfork`, of
`unshare`, and of `shmget`, whose memory no limit counts."""
_VARIABLES: Mapping[str, str] = {
    "PATH": os.defpath,
    "HOME": "/box",
    "TMPDIR": "/box",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""The variables of a program. It has none of the user, and therefore no keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """Limits for one process of a program."""

    seconds: float = 10.0
    memory_mb: int = 4096
    output_mb: int = 16
    """Maximum size of the output of the program, and of all its files."""


class Sandbox:
    """Runs untrusted programs with a Python interpreter.

    Args:
        python: the interpreter: a path, or a name on the PATH. Programs can import the libraries of this
            interpreter.
        limits: the limits of each process.

    Raises:
        ConfigError: bubblewrap is missing or cannot make a sandbox here, or the interpreter does not run.
    """

    def __init__(self, python: str, limits: CodeLimits | None = None) -> None:
        self.limits = limits or CodeLimits()
        found, self._bwrap = shutil.which(python), shutil.which("bwrap")
        if self._bwrap is None or platform.machine() not in _MACHINES:
            told = "install bubblewrap on Linux (apt install bubblewrap), on an x86_64 or aarch64 machine"
            raise ConfigError(f"code in answers is run in a sandbox, which needs the command bwrap: {told}")
        if found is None:
            raise ConfigError(f"there is no Python interpreter {python!r}")
        asked = [found, "-I", "-c", _PATHS]
        try:
            answer = subprocess.run(asked, capture_output=True, check=True, timeout=_START_S)  # noqa: S603 - the user's
            self._paths = [str(each) for each in json.loads(answer.stdout)]
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise ConfigError(f"{python!r} does not run a program: is it Python 3? ({error})") from error
        with self.started({"main.py": "print(6 * 7)"}) as running:
            if running.ended(_START_S) != (0, "42\n"):
                said = running.errors.read_text("utf-8", "replace").strip()[-300:]
                raise ConfigError(f"{python!r} does not run a program in a sandbox of bubblewrap: {said}")

    @contextmanager
    def started(
        self, files: Mapping[str, str], *, stdin: str = "", channels: Sequence[int] = (), result: bool = False
    ) -> Iterator["Running"]:
        """Run the file `main.py` in the block, and stop it at the end of the block.

        Args:
            files: texts of files, by name; the program finds them beside `main.py`.
            stdin: the text for the program's stdin.
            channels: file descriptors for the program, which get the numbers that they have.
            result: whether the program writes its result to a descriptor, its last argument, not to stdout.
        """
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="podium-code-")))
            for name, text in files.items():
                (folder / name).write_text(text, "utf-8", errors="surrogatepass", newline="")
            given, told, errors = (stack.enter_context(NamedTemporaryFile()) for _ in range(3))
            given.write(stdin.encode("utf-8", "surrogatepass"))
            given.seek(0)
            calls, filled = os.pipe()
            stack.callback(os.close, calls)
            os.write(filled, _filter())
            os.close(filled)
            own = [*channels, *([told.fileno()] if result else ())]
            process = subprocess.Popen(  # noqa: S603 - the caller wants the program to run
                [*self._command(folder, calls), *map(str, own)],
                stdin=given,
                stdout=subprocess.DEVNULL if result else told,
                stderr=errors,
                pass_fds=[calls, *own],
                start_new_session=True,
            )
            try:
                yield Running(process, Path(told.name), Path(errors.name), self.limits.output_mb * 2**20)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _command(self, folder: Path, calls: int) -> list[str]:
        limits = self.limits
        bound = [each for each in dict.fromkeys([*_SYSTEM, *self._paths]) if Path(each).exists()]
        bounds = (int(limits.seconds) + 1, limits.memory_mb * 2**20, limits.output_mb * 2**20)
        assert self._bwrap is not None  # checked at the beginning
        return [
            *(self._bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *("--clearenv", *(part for each in _VARIABLES.items() for part in ("--setenv", *each))),
            *(part for each in bound for part in ("--ro-bind", each, each)),
            *(part for each in _DEVICES for part in ("--dev-bind", each, each)),
            *("--ro-bind", str(folder), "/code", "--size", str(limits.output_mb * 2**20), "--tmpfs", "/box"),
            *("--chdir", "/box", "--remount-ro", "/", "--seccomp", str(calls), "--"),
            *(self._paths[0], "-I", "-S", "-c", _LIMIT, *map(str, bounds), "/code/main.py"),
        ]


@dataclass(frozen=True, slots=True)
class Running:
    """A program that runs."""

    process: "subprocess.Popen[bytes]"
    told: Path
    errors: Path
    most: int

    def ended(self, seconds: float) -> tuple[int | None, str]:
        """Wait for the end of the program, and return its exit code, and its output or result.

        After some seconds, the code is `None`. In a thread of anyio, cancelling the caller ends the wait.
        """
        until = monotonic() + seconds
        while self.process.poll() is None and (left := until - monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(min(left, _LOOK_S))
            with suppress(RuntimeError):  # this thread was not started by an event loop
                from_thread.check_cancelled()
        code = self.process.poll()
        with self.told.open("rb") as file:
            return code, file.read(self.most).decode("utf-8", "replace")


def _filter() -> bytes:
    """Return a filter of system calls (seccomp) for bubblewrap: a program may start threads, no processes."""
    audited, clone, denied = _MACHINES[platform.machine()]
    allow, refuse, unknown = 0x7FFF0000, 0x00050001, 0x00050026  # EPERM, ENOSYS: then libc uses `clone`
    load, jump, at_least, mask, answer = 0x20, 0x15, 0x35, 0x54, 0x06
    after = len(denied) + 5
    rows = [
        (load, 0, 0, 4),  # the machine
        (jump, 0, after + 3, audited),
        (load, 0, 0, 0),  # the number of the call
        (at_least, after + 1, 0, 0x40000000),  # the numbers of x32
        *((jump, after - at, 0, number) for at, number in enumerate(denied)),
        (jump, 6, 0, 435),  # clone3, whose flags a filter cannot read
        (jump, 0, 3, clone),
        (load, 0, 0, 16),  # its flags
        (mask, 0, 0, 0x00010000),  # CLONE_THREAD
        (jump, 1, 0, 0),
        (answer, 0, 0, allow),
        (answer, 0, 0, refuse),
        (answer, 0, 0, unknown),
    ]
    return b"".join(struct.pack("HBBI", *row) for row in rows)
