"""Code in answers is run within limits, and graded by its tests."""

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from podium.errors import ConfigError
from podium_evals.grading import Grader
from podium_evals.grading.code import CodeLimits, Sandbox, code_grader, decode_cases
from podium_evals.grading.code.cases import same_output

STDIN = {"type": "stdin", "cases": [{"input": "3\n", "output": "6\n"}, {"input": "4\n", "output": "8"}]}
CALL = {
    "type": "call",
    "function": "twice",
    "cases": [{"input": "3", "output": "6"}, {"input": "[1]", "output": "[1, 1]"}],
}
TESTS = """
import unittest
from unittest.mock import patch

class TestCases(unittest.TestCase):
    def test_twice(self):
        self.assertEqual(twice(2), 4)

    @patch("builtins.print")
    def test_quiet(self, told):
        twice(1)
        told.assert_not_called()
"""
UNITTEST = {"type": "unittest", "code": TESTS}
FORGED = """
import json, os
open("result.json", "w").write(json.dumps({"run": 1, "passed": True, "token": "", "result": 6}))
os._exit(0)
"""


def packed(cases: object) -> str:
    """Pack cases as LiveCodeBench does."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases)))).decode()


@pytest.fixture(scope="module")
def grader() -> Grader:
    """Run programs for at most two seconds, with 1 GB."""
    return code_grader("python3", CodeLimits(seconds=2, memory_mb=1024, output_mb=1))


@pytest.mark.long
@pytest.mark.parametrize(
    ("tests", "program", "score"),
    [
        (STDIN, "print(int(input()) * 2)", 1),
        (STDIN, "from __future__ import annotations\nimport sys\nprint(2 * int(sys.stdin.read()))", 1),
        (STDIN, "if __name__ == '__main__':\n    print(2 * int(input()))", 1),
        (STDIN, "print(6)", 0),
        (STDIN, "print(int(input()) * 2); raise SystemExit(1)", 0),
        (STDIN, "this is no program", 0),
        (STDIN, "", 0),
        (STDIN, "while True:\n    pass", 0),
        (STDIN, "import time\ntime.sleep(60)", 0),
        (STDIN, "x = 'a' * (4 << 30)\nprint(int(input()) * 2)", 0),
        (STDIN, "print('a' * (8 << 20))", 0),
        (STDIN, "import os\nprint(2 * int(input()) if 'SECRET_KEY' not in os.environ else 0)", 1),
        (CALL, "class Solution:\n    def twice(self, x: List[int]):\n        return x * 2", 1),
        (CALL, "def twice(x):\n    return x + x", 1),
        (CALL, "def twice(x):\n    return tuple(x + x) if isinstance(x, list) else x + x", 1),
        (CALL, "def twice(x):\n    return object()", 0),
        (CALL, "def thrice(x):\n    return x", 0),
        (CALL, FORGED, 0),
        (UNITTEST, "def twice(x):\n    return x + x", 1),
        (UNITTEST, "def twice(x):\n    print(x)\n    return x + x", 0),
        (UNITTEST, "import sys\nsys.exit(0)", 0),
        (UNITTEST, FORGED, 0),
        ({"type": "unittest", "code": "class TestCases:\n    pass"}, "x = 1", 0),
    ],
)
def test_programs_are_graded(
    grader: Grader, tests: dict[str, Any], program: str, score: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 for a program that passes all tests; 0 for any other, and for one that breaks a limit."""
    monkeypatch.setenv("SECRET_KEY", "secret")
    assert grader({"tests": tests}, f"Here:\n```python\n{program}\n```") == score


@pytest.mark.long
def test_packed_cases_are_run(grader: Grader) -> None:
    """Besides the public ones."""
    tests = STDIN | {"packed": packed([{"input": "5\n", "output": "10\n", "testtype": "stdin"}])}
    assert grader({"tests": tests}, "```python\nprint(int(input()) * 2)\n```") == 1
    known = "```python\nprint({3: 6, 4: 8}[int(input())])\n```"
    assert (grader({"tests": STDIN}, known), grader({"tests": tests}, known)) == (1, 0)


class Harmful:
    """Would run a command if its pickle were loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("exit 1",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (base64.b64encode(zlib.compress(pickle.dumps(Harmful()))).decode(), "only a text is allowed"),
        (base64.b64encode(zlib.compress(pickle.dumps("[]"))).decode()[:-8], "cut|cannot be read"),
        ("no base64!", "cannot be read"),
        ("[1,", "cannot be read"),
    ],
)
def test_packed_cases_that_are_something_else(text: str, told: str) -> None:
    """Are refused: a pickle can run code."""
    with pytest.raises(ConfigError, match=told):
        decode_cases(text)


@pytest.mark.parametrize(
    "row",
    [
        {"question": "q"},
        {"tests": {"type": "magic"}},
        {"tests": {"type": "stdin", "cases": []}},
        {"tests": {"type": "stdin", "cases": [{"in": "1"}]}},
        {"tests": {"type": "call", "function": "f", "cases": [{"input": "no json", "output": "1"}]}},
    ],
)
def test_a_question_without_tests_is_told(grader: Grader, row: dict[str, Any]) -> None:
    """Instead of scoring each answer 0."""
    with pytest.raises(ConfigError):
        grader(row, "```python\nx = 1\n```")


@pytest.mark.parametrize(("python", "told"), [("no-such-python", "no Python"), ("true", "does not run")])
def test_an_interpreter_that_does_not_run(python: str, told: str) -> None:
    """Is refused before any answer is graded."""
    with pytest.raises(ConfigError, match=told):
        code_grader(python)


def test_a_program_has_no_network() -> None:
    """Where the system can cut it off; processes that it leaves behind end with it."""
    sandbox = Sandbox("python3", CodeLimits(seconds=5))
    if not sandbox.cuts_network:
        pytest.skip("the system lets no user make a network namespace")
    program = "import socket\nprint([name for _, name in socket.if_nameindex()])"
    ended = sandbox.run({"main.py": program}, "main.py")
    assert (ended.code, ended.output) == (0, "['lo']\n")


@pytest.mark.long
def test_time_and_end_are_told() -> None:
    """A program that was stopped has no exit code, and its folder is gone."""
    sandbox = Sandbox("python3", CodeLimits(seconds=3))
    ended = sandbox.run({"main.py": "import os\nprint(os.getcwd(), flush=True)\nwhile True: pass"}, "main.py")
    assert (ended.code, Path(ended.output.strip()).exists()) == (None, False)


@pytest.mark.anyio
async def test_a_cancel_stops_the_program() -> None:
    """It does not wait for the time limit."""
    sandbox = Sandbox("python3", CodeLimits(seconds=30))
    with anyio.fail_after(20), anyio.move_on_after(0.5) as scope:
        await anyio.to_thread.run_sync(sandbox.run, {"main.py": "while True: pass"}, "main.py")
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("expected", "given", "same"),
    [
        ("1 2\n", "1 2", True),
        ("1 2\n3", "1 2 \n3\n\n", True),
        ("0.5", "0.50", True),
        ("1", "1.0", True),
        ("1\n2", "1 2", False),
        ("abc", "ABC", False),
        ("nan", "x", False),
        ("", "", True),
    ],
)
def test_outputs_are_compared(expected: str, given: str, same: bool) -> None:  # noqa: FBT001 - a case
    """Line by line; white space at the ends and the spelling of numbers do not count."""
    assert same_output(expected, given) is same
