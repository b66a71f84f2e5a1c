"""Compares two expressions in a separate process. The process is killed if a comparison takes too long."""

import atexit
import json
import subprocess
import sys
from functools import cache
from threading import Lock, Timer

from podium.errors import ConfigError, install_hint

LIMIT_S = 10.0
"""Seconds that one comparison may take."""
START_LIMIT_S = 60.0
"""Seconds until the process has imported its libraries."""


class MathChecker:
    """A process that compares expressions. The process starts at the first comparison."""

    def __init__(self) -> None:
        self._lock = Lock()  # one comparison at a time: the process answers in order
        self._process: subprocess.Popen[str] | None = None

    def equal(self, right: str, given: str) -> bool:
        """Return whether two expressions are equal; false if the comparison takes too long.

        Raises:
            ConfigError: the library is not installed.
        """
        with self._lock:
            process = self._process if self._process and self._process.poll() is None else self._start()
            told = _ask(process, json.dumps([right, given]), LIMIT_S)
            if told not in ("true", "false"):  # the process was too slow, or needed too much memory
                self._stop()
            return told == "true"

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _start(self) -> subprocess.Popen[str]:
        self._stop()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "podium_evals.grading.math_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        told = _ask(self._process, "", START_LIMIT_S)
        if told != "ready":
            self._stop()
            if told == "missing":
                hint = install_hint("evals[math]")
                raise ConfigError(f"the grader `math` needs math-verify: {hint}")
            raise ConfigError(f"the process of the grader `math` did not start within {START_LIMIT_S:g} s")
        return self._process

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None


def _ask(process: subprocess.Popen[str], line: str, limit_s: float) -> str:
    """Send a line, and return the answer; empty if the process ended, or was killed at the time limit."""
    assert process.stdin is not None
    assert process.stdout is not None
    timer = Timer(limit_s, process.kill)
    timer.start()
    try:
        if line:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        return process.stdout.readline().strip()
    except BrokenPipeError:
        return ""
    finally:
        timer.cancel()


@cache
def shared_checker() -> MathChecker:
    """Return the one checker of this process, which all graders use."""
    checker = MathChecker()
    atexit.register(checker.close)
    return checker
