"""Grades a program: 1 if it passes all tests of its question, else 0."""

import json
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from secrets import token_hex
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
    - `{"type": "unittest", "code": "…"}`: the tests in the code's class `TestCases` are run.

    Cases may also be packed like LiveCodeBench's; then they are under `packed`.

    Args:
        python: the interpreter that runs programs: a path, or a name on the PATH.
        limits: what each process of a program may use.

    Raises:
        ConfigError: programs cannot be run here.
    """
    sandbox = Sandbox(python, limits)
    return Grader(code_in, partial(_score, sandbox), is_slow=True)


def _score(sandbox: Sandbox, row: Mapping[str, Any], program: str) -> float:
    tests = row.get("tests")
    kind = tests.get("type") if isinstance(tests, Mapping) else None
    if not isinstance(tests, Mapping) or kind not in ("stdin", "call", "unittest"):
        raise ConfigError(f"the question {str(row.get('question'))[:80]!r} has no `tests` to grade code by")
    if kind == "unittest":
        return float(bool(program) and _passes_unittest(sandbox, tests, program))
    cases = cases_of(tests)
    if not cases:
        raise ConfigError(f"the question {str(row.get('question'))[:80]!r} has no test cases")
    if not program:
        return 0.0
    passes = _passes_stdin if kind == "stdin" else _passes_call
    return float(all(passes(sandbox, tests, program, case) for case in cases))


def _passes_stdin(sandbox: Sandbox, _tests: Mapping[str, Any], program: str, case: Case) -> bool:
    ended = sandbox.run(_job(program, {"type": "stdin"}), "harness.py", stdin=case.input)
    return ended.code == 0 and same_output(case.output, ended.output)


def _passes_call(sandbox: Sandbox, tests: Mapping[str, Any], program: str, case: Case) -> bool:
    try:
        arguments = [json.loads(line) for line in case.input.split("\n") if line.strip()]
        expected = json.loads(case.output)
    except ValueError as error:
        raise ConfigError(f"a test case is not JSON: {error}") from error
    job = {"type": "call", "function": tests["function"], "arguments": arguments}
    found = _result(sandbox, program, job)
    return found is not None and "result" in found and bool(found["result"] == expected)


def _passes_unittest(sandbox: Sandbox, tests: Mapping[str, Any], program: str) -> bool:
    token = token_hex(16)  # a program that writes the result itself does not know this secret
    found = _result(sandbox, program, {"type": "unittest", "code": tests["code"], "token": token})
    return found is not None and found.get("token") == token and bool(found["run"] and found["passed"])


def _result(sandbox: Sandbox, program: str, job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    ended = sandbox.run(_job(program, job), "harness.py", wanted=("result.json",))
    if ended.code != 0 or "result.json" not in ended.files:
        return None
    try:
        found = json.loads(ended.files["result.json"])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _job(program: str, job: Mapping[str, Any]) -> dict[str, str]:
    harness = files("podium_evals.grading.code").joinpath("harness.py").read_text("utf-8")
    return {"harness.py": harness, "program.py": program, "job.json": json.dumps(job)}
