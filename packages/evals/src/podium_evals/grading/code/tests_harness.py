"""Runs the tests of a program in a sandbox of their own. The program's functions are called in its sandbox.

The first argument is the channel to the program. `tests.py` is executed with one function for each function
of the program. Then its classes of `unittest` run. If the job names a function, `check` of `tests.py` gets
this function, as in HumanEval.
"""
# ruff: noqa: S102, PTH123 - as in `harness`

import builtins
import json
import sys
import types
import unittest
from typing import Any

sys.path.insert(0, "/code")
from values import read, write  # type: ignore[import-not-found]


class Program:
    """The program, in its sandbox."""

    def __init__(self, channel: int) -> None:
        self._asking = open(channel, "wb", buffering=0)  # noqa: SIM115 - until the end of the process
        self._answers = open(channel, "rb", closefd=False)  # noqa: SIM115
        self.names = [str(name) for name in self._read()]

    def call(self, name: str, args: Any, kwargs: Any) -> Any:
        """Call a function of the program."""
        self._asking.write(json.dumps([name, write(args), write(kwargs)]).encode() + b"\n")
        is_value, *told = self._read()
        if is_value is True:
            return read(told[0])
        kind = getattr(builtins, str(told[0]), None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            raise kind(str(told[1]))
        raise RuntimeError(": ".join(map(str, told)))

    def _read(self) -> Any:
        return json.loads(self._answers.readline())


def function_of(program: Program, name: str) -> Any:
    """Return a function that calls the program's function."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return program.call(name, args, kwargs)

    call.__name__ = name
    return call


def main() -> None:
    """Run the tests, and write whether they have passed."""
    program = Program(int(sys.argv[1]))
    with open("/code/job.json", encoding="utf-8") as file:
        job = json.load(file)
    with open("/code/tests.py", encoding="utf-8") as file:
        source = file.read()
    module = types.ModuleType("__test__")
    sys.modules["__test__"] = module
    functions = {name: function_of(program, name) for name in program.names}
    module.__dict__.update(functions)
    exec(compile(source, "tests.py", "exec"), module.__dict__)
    if job["function"] and "check" in module.__dict__:
        module.__dict__["check"](functions[job["function"]])
    found = unittest.TestResult()
    suite = unittest.TestLoader().loadTestsFromModule(module)
    suite.run(found)
    has_tests = suite.countTestCases() == 0 or found.testsRun > 0
    with open(int(sys.argv[2]), "w", encoding="utf-8") as file:
        json.dump({"passed": found.wasSuccessful() and has_tests}, file)


main()
