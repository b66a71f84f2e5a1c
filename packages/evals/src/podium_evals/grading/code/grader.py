"""Grades a program: 1 if it passes all tests of its question, else 0."""

import ast
import json
import socket
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from podium.errors import ConfigError
from podium_evals.grading.code.blocks import code_in
from podium_evals.grading.code.cases import Case, cases_of, same_output
from podium_evals.grading.code.sandbox import CodeLimits, Sandbox
from podium_evals.grading.grader import Grader


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
        if not _tests_something(str(tests.get("code"))):
            raise ConfigError(
                f"{asked} has `code` that is not Python, or has no assert statement and no class"
            )
        return float(bool(program) and _passes_code(sandbox, tests, program))
    try:
        cases = cases_of(tests)
    except ConfigError as error:
        raise ConfigError(f"{asked}: {error}") from error
    if not cases:
        raise ConfigError(f"{asked} has no test cases")
    if not program:
        return 0.0
    passes = _passes_stdin if kind == "stdin" else _passes_call
    return float(all(passes(sandbox, tests, program, case) for case in cases))


def _tests_something(code: str) -> bool:
    try:
        nodes = ast.walk(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.Assert | ast.ClassDef | ast.Raise) for node in nodes)


def _passes_stdin(sandbox: Sandbox, _tests: Mapping[str, Any], program: str, case: Case) -> bool:
    with sandbox.started(_files(program, {"type": "stdin"}), stdin=case.input) as running:
        code, output = running.ended(sandbox.limits.seconds)
    return code == 0 and same_output(case.output, output)


def _passes_call(sandbox: Sandbox, tests: Mapping[str, Any], program: str, case: Case) -> bool:
    try:
        arguments = [json.loads(line) for line in case.input.split("\n") if line.strip()]
        expected = json.loads(case.output)
    except ValueError as error:
        raise ConfigError(f"a test case is not JSON: {error}") from error
    job = {"type": "call", "function": tests["function"], "arguments": arguments}
    with sandbox.started(_files(program, job), result=True) as running:
        code, output = running.ended(sandbox.limits.seconds)
    try:
        return code == 0 and bool(json.loads(output) == expected)
    except (ValueError, RecursionError):  # the program wrote it
        return False


def _passes_code(sandbox: Sandbox, tests: Mapping[str, Any], program: str) -> bool:
    job = {
        "main.py": _source("tests_harness"),
        "tests.py": str(tests["code"]),
        "values.py": _source("values"),
    }
    job["job.json"] = json.dumps({"function": tests.get("function")})
    served = _files(program, {"type": "serve"}) | {"values.py": job["values.py"]}
    one, other = socket.socketpair()
    with one, other, sandbox.started(served, channels=[one.fileno()]):
        one.close()  # then the tests see the end of the program
        with sandbox.started(job, channels=[other.fileno()], result=True) as running:
            code, output = running.ended(sandbox.limits.seconds)
    return code == 0 and output == '{"passed": true}'


def _files(program: str, job: Mapping[str, Any]) -> dict[str, str]:
    return {"main.py": _source("harness"), "program.py": program, "job.json": json.dumps(job)}


def _source(name: str) -> str:
    return files("podium_evals.grading.code").joinpath(f"{name}.py").read_text("utf-8")
