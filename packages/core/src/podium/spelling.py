r"""Writes plans in the three spellings, and what holds a model to one of them.

`plan_schema` and `plan_grammar` are for constrained decoding: what they let through is a
plan in form. Models are not asked how many inputs are enough, so neither has a place for
it. Knows no pool, only how many workers there are or what they are called; `parse` reads
what is written here.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal

from podium.errors import ConfigError
from podium.plan import Plan, Step

Spelling = Literal["lists", "json", "rows"]
"""How a plan is written: three labelled lists, one JSON object, or one JSON object per step."""

KEEP = '{"steps": []}'
"""The plan of no steps in the spellings `json` and `rows`: "keep the previous answer"."""

_STRING = r"""
subtask ::= "\"" blank* visible char* "\""
char ::= [^"\\\x00-\x1F] | "\\" ["\\/bfnrt] | "\\u" hex hex hex hex
visible ::= [^"\\\x00-\x20] | "\\" ["\\/] | "\\u" hex hex hex hex
blank ::= " " | "\\" [bfnrt]
hex ::= [0-9a-fA-F]
""".strip()


def write_plan(plan: Plan, spelling: Spelling, *, workers: Sequence[str] | None = None) -> str:
    """Write `plan` so that `parse_plan` reads the same plan again.

    Args:
        plan: what to write.
        spelling: how.
        workers: names to write in place of numbers, in the pool's order.

    Returns:
        The text: `lists` in three lines, `json` in one, `rows` in one line per step, each
        with a newline at its end. Lists cannot say that some inputs are enough: a plan
        that does is written as `json` in place of `lists`.
    """
    if spelling == "lists" and all(step.enough is None for step in plan.steps):
        return _lists(plan, workers)
    steps = [_object(step, workers) for step in plan.steps]
    if spelling != "rows" or not steps:
        end = "\n" if spelling == "rows" else ""
        return _json({"steps": steps}) + end
    return "".join(_json(step) + "\n" for step in steps)


def plan_schema(workers: int, max_steps: int, *, keep: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a plan in the spelling `json`.

    A schema cannot say that access lists name earlier steps only; `parse_plan` still
    checks. How long a subtask gets is left to the server's token limit: decoders that take
    `maxLength` let raw control characters through, and vLLM's refuses long patterns.

    Args:
        workers: how many workers there are.
        max_steps: most steps the plan may have.
        keep: whether the plan may have no steps, to keep the previous answer.

    Raises:
        ConfigError: there are no workers, or no step is allowed.
    """
    _check(workers, max_steps)
    access: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, "maxItems": max_steps - 1}
    if max_steps > 1:
        access["items"] = {"type": "integer", "minimum": 0, "maximum": max_steps - 2}
    fields = {
        "worker": {"type": "integer", "enum": list(range(workers))},
        "subtask": {"type": "string"},
        "access": access,
    }
    step = _closed(fields)
    steps = {"type": "array", "items": step, "minItems": 0 if keep else 1, "maxItems": max_steps}
    return _closed({"steps": steps})


def plan_grammar(spelling: Spelling, workers: int, max_steps: int, *, keep: bool = False) -> str:
    """Return a grammar of plans in one spelling, in the GBNF that llama.cpp and xgrammar read.

    What `write_plan` writes with numbers for workers, and without `enough`, it lets through.
    All it lets through has lists of equal length, at most `max_steps` steps, workers that
    exist, and access lists that name earlier steps only. How long a subtask gets is left to
    the server's token limit.

    Args:
        spelling: what plans look like; exactly as `write_plan` writes them, with numbers.
        workers: how many workers there are.
        max_steps: most steps the plan may have.
        keep: whether the plan may have no steps, to keep the previous answer.

    Raises:
        ConfigError: there are no workers, or no step is allowed.
    """
    _check(workers, max_steps)
    rules = _lists_rules(max_steps) if spelling == "lists" else _object_rules(spelling, max_steps)
    root = "plan"
    if keep:
        nothing = "model_id = []\nsubtasks = []\naccess_list = []" if spelling == "lists" else KEEP
        root += " | " + _terminal(nothing + ("\n" if spelling == "rows" else ""))
    ids = " | ".join(_terminal(str(number)) for number in range(workers))
    access = [line for index in range(max_steps) for line in _access_rules(index, spelling)]
    return "\n".join([f"root ::= {root}", *rules, f"worker ::= {ids}", *access, _STRING]) + "\n"


def _lists(plan: Plan, workers: Sequence[str] | None) -> str:
    access: list[list[int] | list[str]] = []
    for index, step in enumerate(plan.steps):
        access.append(["all"] if step.access and len(step.access) == index else list(step.access))
    return "\n".join(
        (
            f"model_id = {_json([_who(step, workers) for step in plan.steps])}",
            f"subtasks = {_json([step.subtask for step in plan.steps])}",
            f"access_list = {_json(access)}",
        )
    )


def _object(step: Step, workers: Sequence[str] | None) -> dict[str, Any]:
    enough = {} if step.enough is None else {"enough": step.enough}
    return {"worker": _who(step, workers), "subtask": step.subtask, "access": list(step.access), **enough}


def _who(step: Step, workers: Sequence[str] | None) -> int | str:
    return step.worker if workers is None else workers[step.worker]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _check(workers: int, max_steps: int) -> None:
    if workers < 1:
        raise ConfigError(f"{workers} workers: a plan needs one worker at least")
    if max_steps < 1:
        raise ConfigError(f"max_steps {max_steps}: a plan needs one step at least")


def _closed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _terminal(text: str) -> str:
    """Quote `text` for a grammar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _object_rules(spelling: Spelling, max_steps: int) -> list[str]:
    """Rules for steps as objects: step `i` may be followed by step `i + 1`, up to the last."""
    before, between, after = ('{"steps": [', ", ", "]}") if spelling == "json" else ("", "", "\n")
    rules = [f"plan ::= {_terminal(before)} steps-0 {_terminal(after)}" if before else "plan ::= steps-0"]
    for index in range(max_steps):
        more = ""
        if index + 1 < max_steps:
            more = f" ({_terminal(between)} steps-{index + 1})?" if between else f" steps-{index + 1}?"
        end = f" {_terminal(after)}" if not before else ""
        rules.append(f"steps-{index} ::= step-{index}{end}{more}")
    for index in range(max_steps):
        head, middle, tail = (_terminal(part) for part in ('{"worker": ', ', "subtask": ', ', "access": '))
        close = _terminal("}")
        rules.append(f"step-{index} ::= {head} worker {middle} subtask {tail} access-{index} {close}")
    return rules


def _lists_rules(max_steps: int) -> list[str]:
    """Rules for labelled lists, one per number of steps: only so are they of equal length."""
    rules = ["plan ::= " + " | ".join(f"plan-{count}" for count in range(1, max_steps + 1))]
    for count in range(1, max_steps + 1):
        comma = f" {_terminal(', ')} "
        ids, texts = comma.join(["worker"] * count), comma.join(["subtask"] * count)
        access = comma.join(f"access-{index}" for index in range(count))
        first, second, third, end = (
            _terminal(part) for part in ("model_id = [", "]\nsubtasks = [", "]\naccess_list = [", "]")
        )
        rules.append(f"plan-{count} ::= {first} {ids} {second} {texts} {third} {access} {end}")
    return rules


def _access_rules(index: int, spelling: Spelling) -> list[str]:
    """Rules for what step `index` may see: earlier steps, in order and each once."""
    if index == 0:
        return ['access-0 ::= "[]"']
    everything = ' | "[\\"all\\"]"' if spelling == "lists" else ""
    rules = [f'access-{index} ::= "[" seen-{index}-0? "]"{everything}']
    for first in range(index - 1):
        rest = f"seen-{index}-{first + 1}"
        rules.append(f'seen-{index}-{first} ::= "{first}" (", " {rest})? | {rest}')
    rules.append(f'seen-{index}-{index - 1} ::= "{index - 1}"')
    return rules
