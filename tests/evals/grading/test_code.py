"""Code in answers is run within limits, and graded by its tests."""

import base64
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from servers.chat_server import ChatServer, whole

from podium.errors import ConfigError
from podium_evals.grading import Grader
from podium_evals.grading.code import CodeLimits, Sandbox, code_grader, decode_cases, same_output

STDIN = {"type": "stdin", "cases": [{"input": "3\n", "output": "6\n"}, {"input": "4\n", "output": "8"}]}
CASES = [{"input": "3", "output": "6"}, {"input": "[1]", "output": "[1, 1]"}]
CALL = {"type": "call", "function": "twice", "cases": CASES}
TESTS = """
import unittest

assert twice("a") == "aa"

class TestCases(unittest.TestCase):
    def test_twice(self):
        self.assertEqual(twice((2, None)), (2, None, 2, None))
        with self.assertRaises(TypeError):
            twice(None)

def check(function):
    assert function(1) == 2
"""
CODE = {"type": "code", "function": "twice", "code": TESTS}
LANTERN = "the-lantern-of-the-user"
"""In a variable and a file of the user."""
RIGHT = "def twice(x):\n    return x * 2"
try:
    Sandbox("python3")
    WHY = ""
except ConfigError as error:
    WHY = str(error)
needs_sandbox = pytest.mark.skipif(bool(WHY), reason=WHY)


def pickled(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


@pytest.fixture(scope="module")
def grader() -> Grader:
    return code_grader("python3", CodeLimits(seconds=2, memory_mb=1024, output_mb=1))


@needs_sandbox
@pytest.mark.long
@pytest.mark.parametrize(
    ("tests", "program", "score"),
    [
        (STDIN, "print(int(input()) * 2)", 1),
        (STDIN, "from __future__ import annotations\nimport sys\nprint(2 * int(sys.stdin.read()))", 1),
        (STDIN, "if __name__ == '__main__':\n    print(2 * int(input()))", 1),
        (STDIN, "import threading\nthreading.Thread(target=lambda: print(2 * int(input()))).start()", 1),
        (STDIN, "open('a', 'w').write('6')\nprint(2 * int(input()))", 1),
        (STDIN, "print(6)", 0),
        (STDIN, "print(int(input()) * 2); raise SystemExit(1)", 0),
        (STDIN, "this is no program", 0),
        (STDIN, "", 0),
        (CALL, "class Solution:\n    def twice(self, x: List[int]):\n        return x * 2", 1),
        (CALL, "def twice(x):\n    return x + x", 1),
        (CALL, "def twice(x):\n    return tuple(x + x) if isinstance(x, list) else x + x", 1),
        (CALL, "def twice(x):\n    return object()", 0),
        (CALL, "def thrice(x):\n    return x", 0),
        (CODE, RIGHT, 1),
        (CODE, "def twice(x):\n    print(x)\n    return x + x", 1),
        (CODE, "def twice(x):\n    return list(x) * 2 if isinstance(x, tuple) else x * 2", 0),
        (CODE, "def twice(x):\n    return str(x) * 2", 0),
        (CODE, "def thrice(x):\n    return x", 0),
        ({"type": "code", "code": "assert twice(b'a') == b'aa'\nassert twice({1}) == {1}"}, RIGHT, 0),
        ({"type": "code", "code": "assert same({1: {2j}}) == {1: {2j}}"}, "def same(x):\n    return x", 1),
        ({"type": "code", "code": "1 / 0\nassert True"}, RIGHT, 0),
    ],
)
def test_programs_are_graded(grader: Grader, tests: dict[str, Any], program: str, score: int) -> None:
    """1 for a program that passes all tests; 0 for any other."""
    assert grader({"tests": tests}, f"Here:\n```python\n{program}\n```") == score


EVERYWHERE = """
import json, os, sys
for fd in range(256):
    for text in ('{"passed": true}', '6', '[true, 6]\\n'):
        try: os.write(fd, text.encode())
        except OSError: pass
os._exit(0)
"""
EQUAL = """
class Equal(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def twice(x):
    return Equal(0)
"""
REPLACED = """
import unittest, builtins, json
unittest.TestCase.assertEqual = unittest.TestCase.run = lambda *_: None
unittest.TestResult.wasSuccessful = lambda self: True
json.dumps = lambda *_: '{"passed": true}'
json.dump = lambda value, file: file.write("6")
builtins.AssertionError = KeyboardInterrupt
def twice(x):
    return 0
"""
FRAMES = """
import gc, sys
def twice(x):
    frame = sys._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, dict) and ("output" in value or "cases" in value):
                return value
        frame = frame.f_back
    every = [each for each in gc.get_objects() if isinstance(each, dict)]
    found = [each for each in every if {"code", "function"} <= each.keys()]
    return found[0]["code"] if found else 0
"""
ATTACKS = {
    "hang": "while True:\n    pass",
    "sleep": "import time\ntime.sleep(60)",
    "hang when called": "def twice(x):\n    while True: pass",
    "memory": "x = 'a' * (4 << 30)\n" + RIGHT,
    "output": "import sys\nwhile True: sys.stdout.write('a' * (1 << 20))",
    "endless answer": "import os\ndef twice(x):\n    while True:\n        try: os.write(3, b'[' * 65536)\n"
    "        except OSError: os.write(5, b'[' * 65536)",
    "disk": "for n in range(99): open(str(n), 'wb').write(b'a' * 999999)\n" + RIGHT,
    "memory files": "import os\nkept = [os.memfd_create(str(n)) for n in range(999)]\n" + RIGHT,
    "fork bomb": "import os\nwhile True: os.fork()",
    "process": "import subprocess\nsubprocess.run(['/bin/true'], check=True)\n" + RIGHT,
    "thread bomb": "import threading, time\nfor _ in range(99999): threading.Thread(target=time.sleep, "
    "args=(9,)).start()\n" + RIGHT,
    "namespace": "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0\n" + RIGHT,
    "parent": "import os\nos.kill(-1, 9)\nos.kill(os.getppid(), 9)\nraise SystemExit",
    "crash": "import ctypes\nctypes.string_at(0)",
    "recursion": "def twice(x):\n    return twice(x)",
    "end": "import os\nos._exit(0)",
    "exit": "import sys\nsys.exit(0)",
    "every descriptor": EVERYWHERE,
    "always equal": EQUAL,
    "replaced checks": REPLACED,
    "frames": FRAMES,
    "deep answer": "def twice(x):\n    y = []\n    for _ in range(99999): y = [y]\n    return y",
    "large number": "def twice(x):\n    return 10 ** 9999",
    "code of tests": "def twice(x):\n    return open('/code/tests.py').read() and x * 2",
    "other interpreter": "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'print(6)'])",
    "own files": "for name in ('main', 'values', 'job'): open(f'/code/{name}.py', 'w').write('')\n" + RIGHT,
}


@needs_sandbox
@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_scores_nothing(grader: Grader, attack: str) -> None:
    """And grading continues: the next program gets its score."""
    for tests in (CALL, CODE):
        assert grader({"tests": tests}, f"```python\n{ATTACKS[attack]}\n```") == 0
    assert grader({"tests": tests}, f"```python\n{RIGHT}\n```") == 1


@needs_sandbox
@pytest.mark.long
@pytest.mark.anyio
async def test_a_program_sees_nothing_of_the_user(
    grader: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", LANTERN)
    (secret := tmp_path / "secret").write_text(LANTERN)
    looks = f"""
import glob, os, socket
def look():
    seen = [str(dict(os.environ)), *glob.glob("/proc/[0-9]*"), *glob.glob("/home/*")]
    seen += glob.glob("/root/.[a-oq-z]*")
    seen += [name for _, name in socket.if_nameindex() if name != "lo"]
    for path in ({str(secret)!r}, "/etc/passwd", "/proc/self/environ", "/proc/1/environ"):
        try: seen.append(open(path).read())
        except OSError: pass
    return "\\n".join(seen)
look()
"""
    code = f"told = look()\nassert {LANTERN!r} not in told and 'root:' not in told and '/proc' not in told\n"
    code += "assert told.count('\\n') == 0, told"
    assert grader({"tests": {"type": "code", "code": code}}, f"```python\n{looks}\n```") == 1
    async with ChatServer(lambda call: whole({})) as server:
        host, port = server.url.split("/")[2].split(":")
        calls = f"import socket\nsocket.create_connection(({host!r}, {port}), timeout=1)\n{RIGHT}"
        assert await anyio.to_thread.run_sync(grader, {"tests": CODE}, f"```python\n{calls}\n```") == 0


@needs_sandbox
@pytest.mark.long
def test_packed_cases_are_run(grader: Grader) -> None:
    tests = STDIN | {"packed": pickled('[{"input": "5\\n", "output": "10\\n", "testtype": "stdin"}]')}
    assert grader({"tests": tests}, "```python\nprint(int(input()) * 2)\n```") == 1
    known = "```python\nprint({3: 6, 4: 8}[int(input())])\n```"
    assert (grader({"tests": STDIN}, known), grader({"tests": tests}, known)) == (1, 0)


class Harmful:
    """Would run a command if its pickle were loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("exit 1",)


def test_packed_cases_that_are_something_else() -> None:
    """Are refused: a pickle can run code."""
    for text, told in (
        (pickled(Harmful()), "only a text is allowed"),
        (pickled("[]")[:-8], "cut|cannot be read"),
        ("no base64!", "cannot be read"),
        ("[1,", "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=told):
            decode_cases(text)


@needs_sandbox
def test_a_question_without_tests_is_told(grader: Grader) -> None:
    cases: list[dict[str, Any]] = [
        {"type": "magic"},
        {"type": "stdin", "cases": []},
        {"type": "stdin", "cases": [{"in": "1"}]},
        {"type": "call", "function": "f", "cases": [{"input": [3], "output": 6}]},
        {"type": "code"},
        {"type": "code", "code": "assert f(3) =="},
        {"type": "code", "code": "x = 1"},
        {"type": "call", "function": "f", "cases": [{"input": "no json", "output": "1"}]},
    ]
    for row in ({"question": "q"}, *({"tests": each} for each in cases)):
        with pytest.raises(ConfigError):
            grader(row, "```python\nx = 1\n```")


@pytest.mark.parametrize(("python", "told"), [("no-such-python", "no Python"), ("true", "does not run")])
def test_an_interpreter_that_does_not_run(python: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        code_grader(python)


@needs_sandbox
@pytest.mark.anyio
async def test_a_cancel_stops_the_program() -> None:
    """It does not wait for the time limit."""
    grader = code_grader("python3", CodeLimits(seconds=30))
    with anyio.fail_after(20), anyio.move_on_after(0.5) as scope:
        await anyio.to_thread.run_sync(grader, {"tests": STDIN}, "```python\nwhile True: pass\n```")
    assert scope.cancelled_caught


def test_outputs_are_compared() -> None:
    """Line by line; white space at the ends and the spelling of numbers do not count."""
    same = (("1 2\n3", "1 2 \n3\n\n"), ("0.5", "0.50"), ("1", "1.0"), ("", ""))
    other = (("1\n2", "1 2"), ("abc", "ABC"), ("nan", "x"))
    assert [same_output(*pair) for pair in (*same, *other)] == [True] * 4 + [False] * 3
