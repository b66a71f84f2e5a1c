"""Grades mathematical answers: as text, as numbers, or by `math-verify`, in a process of its own."""

import atexit
import json
import logging
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cache
from importlib import import_module
from math import ceil
from threading import Lock, Timer
from time import process_time
from typing import Any

from podium.errors import ConfigError, install_hint
from podium_evals.grading.answers import Grader, final_answer, numbers_in, right_answer

LONGEST = 500
"""Maximum number of characters of an answer that is compared as an expression."""
_MARKS = re.compile(r"\\left(?![a-z])|\\right(?![a-z])|\\[,;:! ]|\\quad|\$|\\\(|\\\)|\\\[|\\\]|~")
_TEXT = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|operatorname|mbox)\s*\{([^{}]*)\}(\s*\^\s*\{?\s*-?[23]\s*\}?)?"
)
_SPELT = (
    (re.compile(r"(?<![\\a-zA-Z])pi\b|π"), r"\\pi "),
    (re.compile(r"(?<![\\a-zA-Z])sqrt\s*\(([^()]*)\)|√\s*\(([^()]*)\)|√\s*(\d+)"), r"\\sqrt{\1\2\3}"),
    (re.compile(r"<=|≤"), r"\\le "),
    (re.compile(r">=|≥"), r"\\ge "),
    (re.compile(r"∞"), r"\\infty "),
)
"""The LaTeX for some plain spellings."""
_MIXED = re.compile(r"(\d+) (\d+/\d+)")
_JOINING = {"and", "or", "to", "if", "mod"}
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°|\bdegrees?\b)")
_UNIT = re.compile(
    r"(?<=[\d)}])\s+(?!and\b|or\b|to\b|pi\b|sqrt|times)"
    r"(?:[A-Za-zµΩ]{2,}(?:[/^][A-Za-z\d]+)*(?: [a-z]{2,})*|[A-Za-z](?:/[A-Za-z]+(?:\^?[23])?))$"
)
"""A unit after a number: a word, or letters with a slash. A single letter may be a variable."""
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[ '-][^\W\d_]+)*")
_NUMBER = re.compile(r"[-+\u2212]?\s*[$€£]?\s*(?:[\d.,]|\\frac|[ {}/]|\\?%)+")


def _is_equal(row: Mapping[str, Any], answer: str) -> float:
    right, given = plain_math(right_answer(row)), plain_math(answer)
    if not given:
        return 0.0
    if _compact(right) == _compact(given):
        return 1.0
    if _WORDS.fullmatch(right) or len(given) > LONGEST:
        return 0.0  # the library reads a word as a product of its letters
    numbers = _number(right), _number(given)
    if None not in numbers:
        return float(_same_number(*numbers, right, given))  # type: ignore[arg-type]
    return float(shared_checker().equal(right, given))


math = Grader(final_answer, _is_equal, is_slow=True)
"""Scores 1 if the final answer equals the right one: as text, as a number, or as an expression.

This grader needs the extra `math`. Units, degrees and the left side of `x = …` are ignored; so is a percent
sign if the digits are the same. Decimals are exact: 0.333 is not 1/3. A comparison that takes more than ten
seconds of CPU, or three minutes, scores 0, and so does an answer of more than 500 characters.
"""


def plain_math(text: str) -> str:
    r"""Return an answer without its typesetting: `$`, `\left`, `\text{…}`, degrees, a full stop."""
    text = text.strip().strip("*`").strip()
    text = _MARKS.sub(" ", text.replace("\\$", " ").replace("{,}", ","))
    for _ in range(3):  # texts in texts
        text = _TEXT.sub(_untypeset, text)
    text = re.sub(r"\\[dtc]frac", r"\\frac", text).replace("\u2212", "-")
    for spelling, latex in _SPELT:
        text = spelling.sub(latex, text)
    text = _DEGREES.sub("", " ".join(text.split()))
    return text.removesuffix(".").strip()


def _untypeset(match: re.Match[str]) -> str:
    """Return typeset text as plain text, without a unit after a number."""
    text, exponent = match[1], match[2] or ""
    before = match.string[: match.start()].rstrip(" \\,;~")[-1:]
    is_unit = bool(before) and (before.isdigit() or before in ")}%") and text.strip().lower() not in _JOINING
    return "" if is_unit and not re.search(r"\d", text) else f" {text} {exponent}"


def _compact(text: str) -> str:
    return re.sub(r"\s+", "", text).casefold()


def _number(text: str) -> Fraction | None:
    """Return the value of a text that is a number, with or without a unit; `None` for other texts."""
    bare = _UNIT.sub("", re.sub(r"^[a-zA-Z]\s*=\s*", "", text))
    if not _NUMBER.fullmatch(bare):
        return None
    if mixed := _MIXED.fullmatch(bare):
        return int(mixed[1]) + numbers_in(mixed[2])[0]
    found = numbers_in(bare)
    return found[0] if len(found) == 1 else None


def _same_number(right: Fraction, given: Fraction, *texts: str) -> bool:
    if right == given:
        return True
    percents = ["%" in text for text in texts]
    if percents == [True, False]:
        return right * 100 == given
    return percents == [False, True] and right == given * 100


LIMIT_S = 10
"""Seconds of CPU that one comparison may take, so that a busy machine gives the same scores."""
WAIT_LIMIT_S = 180.0
"""Seconds that one comparison may take in all."""
START_LIMIT_S = 180.0
"""Seconds until the process has imported its libraries."""
MOST_MEMORY = 2**31
"""Bytes of address space of the process: powers of large numbers could fill all memory."""


class MathChecker:
    """A process that compares expressions, one at a time. It is killed if a comparison takes too long."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None

    def equal(self, right: str, given: str) -> bool:
        """Return whether two expressions are equal; false if the comparison takes too long."""
        with self._lock:
            process = self._process if self._process and self._process.poll() is None else self._start()
            told = _ask(process, json.dumps([right, given]), WAIT_LIMIT_S)
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
            [sys.executable, "-m", "podium_evals.grading.mathematics"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        told = _ask(self._process, "", START_LIMIT_S)
        if told == "ready":
            return self._process
        self._stop()
        if told == "missing":
            raise ConfigError(f"the grader `math` needs math-verify: {install_hint('podium-evals[math]')}")
        raise ConfigError(f"the process of the grader `math` did not start within {START_LIMIT_S:g} s")

    def _stop(self) -> None:
        if self._process is not None:
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


def main() -> None:
    """Be the process of a `MathChecker`: answer the lines of stdin, each with two expressions."""
    limits: Any = None
    with suppress(ImportError):
        limits = import_module("resource")  # Windows has none
        limits.setrlimit(limits.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        from math_verify import parse, verify  # type: ignore[import-untyped] # noqa: PLC0415 - an extra
    except ImportError:
        print("missing", flush=True)  # noqa: T201 - the pipe to the checker, here and below
        return
    logging.disable()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        right, given = json.loads(line)
        if limits is not None:  # the system kills the process at the limit
            hard = limits.getrlimit(limits.RLIMIT_CPU)[1]
            limits.setrlimit(limits.RLIMIT_CPU, (ceil(process_time()) + LIMIT_S, hard))
        try:
            # The library's own limits are of time on the clock, in which a busy machine does less.
            parts = [parse(f"${text}$", parsing_timeout=None) for text in (right, given)]
            is_equal = bool(verify(*parts, timeout_seconds=None))
        except (Exception, MemoryError):  # noqa: BLE001 - any failure of the library means: not shown equal
            is_equal = False
        print(json.dumps(is_equal), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
