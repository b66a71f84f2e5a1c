"""Runs a program inside the sandbox, with the user's interpreter. It imports only the standard library.

`job.json` says what to do. `stdin`: run the program. `call`: call a function of the program, and write its
result. `serve`: call functions of the program for its tests, which run in another sandbox.
"""
# ruff: noqa: S102, PTH123 - this module must run programs, and it starts faster without pathlib

import json
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
    from values import read, write  # type: ignore[import-not-found]  # noqa: PLC0415 - only here for this job

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


def main() -> None:
    """Do the job."""
    sys.path.insert(0, "/code")
    with open("/code/job.json", encoding="utf-8") as file:
        job = json.load(file)
    if job["type"] == "stdin":
        load("__main__")
        return
    names = load("solution")
    if job["type"] == "serve":
        serve(names, int(sys.argv[1]))
        return
    target = types.SimpleNamespace(**names) if "Solution" not in names else names["Solution"]()
    result = getattr(target, job["function"])(*job["arguments"])
    with open(int(sys.argv[1]), "w", encoding="utf-8") as file:
        json.dump(result, file)


main()
