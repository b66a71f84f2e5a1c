"""Grades programs that models wrote: runs them with bubblewrap, on the tests of their question."""

import ast
import base64
import binascii
import io
import json
import os
import pickle
import platform
import re
import shutil
import signal
import socket
import struct
import subprocess
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from textwrap import dedent
from time import monotonic
from typing import Any

from anyio import from_thread

from podium.errors import ConfigError
from podium_evals.grading.answers import Grader, tagged_answer

_START_S = 60.0
"""Seconds in which the interpreter must run its first program."""
_CLOCK = 5
"""Time on the clock for each second of CPU time."""
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
    """CPU time. On the clock, it is five times as much, because a busy machine runs a program more slowly."""
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
        """Wait for the end of the program, and return its exit code, and its output or result."""
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


LARGEST = 2**30
"""Maximum number of bytes of packed cases after unpacking."""


@dataclass(frozen=True, slots=True)
class Case:
    """An input of a program, and the expected output."""

    input: str
    output: str


def _cases_of(tests: Mapping[str, Any]) -> Sequence[Case]:
    """Return all cases of a question's `tests`: those under `cases`, and those packed under `packed`."""
    try:
        rows = [*tests.get("cases", ()), *(decode_cases(packed) if (packed := tests.get("packed")) else ())]
        cases = [Case(row["input"], row["output"]) for row in rows]
    except (KeyError, TypeError) as error:
        told = f"{type(error).__name__}: {error}"
        raise ConfigError(f"each test case needs `input` and `output` ({told})") from error
    if not all(isinstance(text, str) for case in cases for text in (case.input, case.output)):
        told = "`input` and `output` of a test case must be text; for a function, text of JSON values"
        raise ConfigError(told)
    return cases


def decode_cases(packed: str) -> list[dict[str, Any]]:
    """Unpack cases that are JSON text, or a base64-encoded, zlib-compressed pickle of JSON text.

    The pickle may hold only one text, because loading other pickles can run code.

    Raises:
        ConfigError: the cases have another form.
    """
    try:
        if packed.lstrip().startswith("["):
            return list(json.loads(packed))
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(packed), LARGEST)
        if not unpacking.eof:
            raise ConfigError(f"packed test cases are cut, or larger than {LARGEST:,} bytes")
        return list(json.loads(_TextUnpickler(io.BytesIO(data)).load()))
    except (ValueError, TypeError, EOFError, binascii.Error, zlib.error, pickle.UnpicklingError) as error:
        raise ConfigError(f"packed test cases cannot be read: {type(error).__name__}: {error}") from error


class _TextUnpickler(pickle.Unpickler):
    """An unpickler that loads only texts, and refuses all names in a pickle."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the pickle names {module}.{name}: only a text is allowed")


def same_output(expected: str, given: str) -> bool:
    """Return whether two outputs are equal. White space at line ends is ignored; `1.0` equals `1`."""
    wanted, lines = ([line.split() for line in text.strip().split("\n")] for text in (expected, given))
    stripped = ([line.strip() for line in text.strip().split("\n")] for text in (expected, given))
    return next(stripped) == next(stripped) or (
        [len(words) for words in wanted] == [len(words) for words in lines]
        and all(
            word == other or _same_number(word, other)
            for words, others in zip(wanted, lines, strict=True)
            for word, other in zip(words, others, strict=True)
        )
    )


def _same_number(word: str, other: str) -> bool:
    try:
        return Decimal(word) == Decimal(other)
    except InvalidOperation:
        return False


_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<tag>[\w+#.-]*)[^\n`]*\n(?P<code>.*?)"
    r"(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON = {"python", "py", "python3", "py3"}
_DEFINES = re.compile(r"^\s*(?:async\s+def|def|class|for|while|if|with)\b|\binput\(|\bstdin\b", re.MULTILINE)


def code_in(text: str) -> str:
    """Return the Python program in a text; empty if there is none.

    It is the last fenced block that is Python and defines something or reads input: a later block is often an
    example of its use. Blocks without a language count only if no block is marked as Python. A text without
    fences is a program if Python can parse it. A block without an end ends with the text.
    """
    text = tagged_answer(text)
    blocks = [(match["tag"].lower(), dedent(match["code"]).strip("\n")) for match in _FENCE.finditer(text)]
    if not blocks:
        return text if _nodes(text) else ""
    marked = [code for tag, code in blocks if tag in _PYTHON] or [code for tag, code in blocks if not tag]
    programs = [code for code in marked if _DEFINES.search(code) and _nodes(code)]
    return (programs or marked or [""])[-1]


def _nodes(code: str) -> list[ast.AST]:
    """Return the nodes of the syntax of a program; none if it is empty or not Python."""
    try:
        return list(ast.walk(ast.parse(code))) if code.strip() else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def code_grader(python: str, limits: CodeLimits | None = None) -> Grader:
    """Return a grader that runs the program in an answer, on the tests of its question.

    The row's `tests` are one of these:

    - `{"type": "stdin", "cases": [{"input": "…", "output": "…"}]}`: for each case, the program is run, and
      its output is compared with the expected output.
    - `{"type": "call", "function": "name", "cases": […]}`: the function, or the method of `Solution`, is
      called with the JSON values on the lines of the input, and its result is compared with the expected
      output.
    - `{"type": "code", "code": "…"}`: the code is executed: its `assert` statements, its classes of
      `unittest`, and, with `"function": "name"`, its function `check`, which is given this function. It runs
      in another process than the program, whose functions get and return copies of plain values.

    Cases may also be packed like LiveCodeBench's; then they are under `packed`. Expected outputs and tests
    are never in the program's sandbox.

    Args:
        python: the interpreter that runs programs: a path, or a name on the PATH.
        limits: what each process of a program may use.

    Raises:
        ConfigError: programs cannot be run here.
    """
    sandbox = Sandbox(python, limits)
    return Grader(code_in, partial(_score, sandbox), is_slow=True)


def _score(sandbox: Sandbox, row: Mapping[str, Any], program: str) -> float:
    tests, asked = row.get("tests"), f"the question {str(row.get('question'))[:80]!r}"
    kind = tests.get("type") if isinstance(tests, Mapping) else None
    if not isinstance(tests, Mapping) or kind not in ("stdin", "call", "code"):
        raise ConfigError(f"{asked} has no `tests` to grade code by")
    if kind == "code":
        nodes = _nodes(str(tests.get("code")))
        if not any(isinstance(node, ast.Assert | ast.ClassDef | ast.Raise) for node in nodes):
            told = "has `code` that is not Python, or has no assert statement and no class"
            raise ConfigError(f"{asked} {told}")
        return float(bool(program) and _passes_code(sandbox, tests, program))
    try:
        cases = _cases_of(tests)
    except ConfigError as error:
        raise ConfigError(f"{asked}: {error}") from error
    if not cases:
        raise ConfigError(f"{asked} has no test cases")
    if not program:
        return 0.0
    passes = _passes_stdin if kind == "stdin" else _passes_call
    return float(all(passes(sandbox, tests, program, case) for case in cases))


def _passes_stdin(sandbox: Sandbox, _tests: Mapping[str, Any], program: str, case: Case) -> bool:
    with sandbox.started(_files(program, {"type": "stdin"}), stdin=case.input) as running:
        code, output = running.ended(_CLOCK * sandbox.limits.seconds)
    return code == 0 and same_output(case.output, output)


def _passes_call(sandbox: Sandbox, tests: Mapping[str, Any], program: str, case: Case) -> bool:
    try:
        arguments = [json.loads(line) for line in case.input.split("\n") if line.strip()]
        expected = json.loads(case.output)
    except ValueError as error:
        raise ConfigError(f"a test case is not JSON: {error}") from error
    job = {"type": "call", "function": tests["function"], "arguments": arguments}
    with sandbox.started(_files(program, job), result=True) as running:
        code, output = running.ended(_CLOCK * sandbox.limits.seconds)
    try:
        return code == 0 and bool(json.loads(output) == expected)
    except (ValueError, RecursionError):  # the program wrote it
        return False


def _passes_code(sandbox: Sandbox, tests: Mapping[str, Any], program: str) -> bool:
    job = {"type": "tests", "function": tests.get("function")}
    asking = _files(program, job, **{"tests.py": str(tests["code"])})
    del asking["program.py"]
    one, other = socket.socketpair()
    with one, other, sandbox.started(_files(program, {"type": "serve"}), channels=[one.fileno()]):
        one.close()  # then the tests see the end of the program
        with sandbox.started(asking, channels=[other.fileno()], result=True) as running:
            code, output = running.ended(_CLOCK * sandbox.limits.seconds)
    return code == 0 and output == '{"passed": true}'


def _files(program: str, job: Mapping[str, Any], **more: str) -> dict[str, str]:
    harness = files("podium_evals.grading").joinpath("harness.py").read_text("utf-8")
    return {"main.py": harness, "program.py": program, "job.json": json.dumps(job), **more}
