"""Runs a program inside the sandbox, with the user's interpreter. It imports only the standard library.

The folder has `program.py` and `job.json`. The job has one of three types. `stdin`: the program is run.
`call`: a function of the program is called, and the result is written. `unittest`: the tests are run, and
their success is written.
"""
# ruff: noqa: S102, PTH107, PTH123 - this module must run programs, and it starts faster without pathlib

import json
import os
import sys
import types
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


def run(job: dict[str, Any], source: str) -> dict[str, Any] | None:
    """Run the program as a contest does."""
    sys.setrecursionlimit(50_000)
    is_main = job["type"] == "stdin"
    module = types.ModuleType("__main__" if is_main else "solution")
    sys.modules[module.__name__] = module
    exec(PRELUDE, module.__dict__)
    exec(compile(source, "program.py", "exec"), module.__dict__)
    if is_main:
        return None
    names = module.__dict__
    solution = names["Solution"]() if "Solution" in names else module
    return {"result": getattr(solution, job["function"])(*job["arguments"])}


def run_tests(job: dict[str, Any], source: str) -> dict[str, Any]:
    """Run the program and its tests in one module, as BigCodeBench does."""
    import unittest  # noqa: PLC0415 - most jobs have no unit tests

    module = types.ModuleType("__test__")
    module.__dict__.update(__file__="__test__.py", sys=sys, os=os, environ=os.environ)
    sys.modules["__test__"] = module
    exec(compile(source + "\n" + job["code"], "__test__.py", "exec"), module.__dict__)
    suite = unittest.TestLoader().loadTestsFromTestCase(module.TestCases)
    found = unittest.TestResult()
    suite.run(found)
    return {"run": found.testsRun, "passed": found.wasSuccessful(), "token": job["token"]}


def main() -> None:
    """Read the job file, remove it, and run the job."""
    with open("job.json", encoding="utf-8") as file:
        job = json.load(file)
    with open("program.py", encoding="utf-8") as file:
        source = file.read()
    os.remove("job.json")
    write, dump = open, json.dump  # a program may replace these functions
    told = (run_tests if job["type"] == "unittest" else run)(job, source)
    if told is not None:
        with write("result.json", "w", encoding="utf-8") as file:
            dump(told, file)


main()
