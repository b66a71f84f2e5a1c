"""Runs a program, or its tests, inside a sandbox, with the user's interpreter and the standard library only.

`job.json` says what to do. `stdin`: run the program. `call`: call a function of the program, and write its
result. `serve`: call functions of the program for its tests. `tests`: run the tests, in a sandbox of their
own, with one function for each function of the program. These functions get and return copies of plain
values: the tests trust nothing that the program sends.
"""
# ruff: noqa: S102, PTH123 - this module must run programs, and it starts faster without pathlib

import builtins
import json
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

PRELUDE = """
import bisect, collections, copy, datetime, functools, heapq, itertools, json, math, operator, random, re
import statistics, string, sys
from bisect import *
from collections import *
from copy import *
from datetime import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import *
from random import *
from re import *
from statistics import *
from string import *
from typing import *
from builtins import *
"""
"""The imports that contest sites put before a program."""
_ONE: Sequence[tuple[type, Callable[[Any], Any]]] = (
    (bool, bool),
    (str, str),
    (Integral, int),
    (float, float),
)
_MANY: Mapping[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def write(value: Any) -> Any:
    """Return a value as JSON's; raise `TypeError` for values that are not plain."""
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, bytes | bytearray):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {"dict": [[write(key), write(each)] for key, each in value.items()]}
    for name, kind in _MANY.items():
        if isinstance(value, kind):
            return {name: [write(each) for each in value]}
    if found := [plain(value) for kind, plain in _ONE if isinstance(value, kind)]:
        return found[0]
    if value is not None:
        raise TypeError(f"tests get plain values, not {type(value).__name__}")
    return None


def read(value: Any) -> Any:
    """Return the value of JSON that `write` has written."""
    if not isinstance(value, dict):
        return value
    ((name, inside),) = value.items()
    if name == "complex":
        return complex(*inside)
    if name == "bytes":
        return bytes.fromhex(inside)
    if name == "dict":
        return {read(key): read(each) for key, each in inside}
    return _MANY[name](map(read, inside))


def load(name: str) -> dict[str, Any]:
    """Run the program as a contest does, and return its names."""
    sys.setrecursionlimit(50_000)
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(PRELUDE, module.__dict__)
    with open("/code/program.py", encoding="utf-8", errors="surrogateescape") as file:
        exec(compile(file.read(), "program.py", "exec"), module.__dict__)
    return module.__dict__


def serve(names: dict[str, Any], channel: int) -> None:
    """Tell the functions of the program, and call them; values go as JSON, one line each."""
    own = [name for name, value in names.items() if isinstance(value, types.FunctionType)]
    with open(channel, "wb", buffering=0) as line, open(channel, "rb", closefd=False) as asking:
        line.write(json.dumps(own).encode() + b"\n")
        for asked in asking:
            name, args, kwargs = json.loads(asked)
            try:
                told = [True, write(names[name](*read(args), **read(kwargs)))]
            except Exception as error:  # noqa: BLE001 - the tests may expect it
                told = [False, type(error).__name__, str(error)]
            line.write(json.dumps(told).encode() + b"\n")


class Program:
    """The program of the tests, in its sandbox."""

    def __init__(self, channel: int) -> None:
        self._asking = open(channel, "wb", buffering=0)  # noqa: SIM115 - until the end of the process
        self._answers = open(channel, "rb", closefd=False)  # noqa: SIM115
        self.functions = {str(name): self._function(str(name)) for name in self._read()}

    def _function(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._asking.write(json.dumps([name, write(args), write(kwargs)]).encode() + b"\n")
            is_value, *told = self._read()
            if is_value is True:
                return read(told[0])
            kind = getattr(builtins, str(told[0]), None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                raise kind(str(told[1]))
            raise RuntimeError(": ".join(map(str, told)))

        call.__name__ = name
        return call

    def _read(self) -> Any:
        return json.loads(self._answers.readline())


def test(program: Program, function: str) -> dict[str, bool]:
    """Run the assert statements of the tests, their classes of `unittest`, and `check` of this function."""
    import unittest  # noqa: PLC0415 - slow to import, and only this job needs it

    with open("/code/tests.py", encoding="utf-8") as file:
        source = file.read()
    module = types.ModuleType("__test__")
    sys.modules["__test__"] = module
    module.__dict__.update(program.functions)
    exec(compile(source, "tests.py", "exec"), module.__dict__)
    if function and "check" in module.__dict__:
        module.__dict__["check"](program.functions[function])
    found = unittest.TestResult()
    suite = unittest.TestLoader().loadTestsFromModule(module)
    suite.run(found)
    has_tests = suite.countTestCases() == 0 or found.testsRun > 0
    return {"passed": found.wasSuccessful() and has_tests}


def main() -> None:
    """Do the job. The last argument is the descriptor for the result; the first is a channel."""
    with open("/code/job.json", encoding="utf-8") as file:
        job = json.load(file)
    if job["type"] == "tests":
        result: Any = test(Program(int(sys.argv[1])), job["function"])
    elif job["type"] == "stdin":
        load("__main__")
        return
    elif job["type"] == "serve":
        serve(load("solution"), int(sys.argv[1]))
        return
    else:
        names = load("solution")
        target = types.SimpleNamespace(**names) if "Solution" not in names else names["Solution"]()
        result = getattr(target, job["function"])(*job["arguments"])
    with open(int(sys.argv[-1]), "w", encoding="utf-8") as file:
        json.dump(result, file)


sys.path.insert(0, "/code")
main()
