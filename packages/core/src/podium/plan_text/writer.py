"""Writes plans in the three spellings that `parser` reads."""

import json
from collections.abc import Sequence
from typing import Any, Literal, assert_never

from podium.types.plan import PREVIOUS, Plan, Step
from podium.types.references import renumbered

Spelling = Literal["lists", "json", "rows"]
"""The form of a plan's text: three labelled lists, one JSON object, or one JSON object per step."""

KEEP = '{"steps": []}'
"""The plan without steps in the spellings `json` and `rows`: "keep the previous answer"."""


def keep_text(spelling: Spelling) -> str:
    """Return the text of a plan without steps, which keeps the previous answer."""
    match spelling:
        case "lists":
            return _lists(Plan(()), None)
        case "json" | "rows":
            return KEEP
        case _:
            assert_never(spelling)


def write_plan(plan: Plan, spelling: Spelling, *, workers: Sequence[str] | None = None) -> str:
    """Return the text of `plan`, from which `parse_plan` reads the same plan; `lists` lose labels.

    Args:
        plan: the plan.
        spelling: the spelling of the text.
        workers: names of the workers, in the pool's order; `None` writes their numbers.

    Returns:
        The text: `lists` has three lines, `json` one line, `rows` one line per step, each
        with a newline at its end. `lists` cannot express `enough`: such a plan is written
        as `json`. Labels are written as ids, except in `lists`, which number steps from 0.
    """
    steps = [_object(step, plan.labels, workers) for step in plan.steps]
    match spelling:
        case "lists":
            has_enough = any(step.enough is not None for step in plan.steps)
            return _json({"steps": steps}) if has_enough else _lists(plan, workers)
        case "json":
            return _json({"steps": steps})
        case "rows":
            return "".join(_json(step) + "\n" for step in steps) or KEEP + "\n"
        case _:
            assert_never(spelling)


def _lists(plan: Plan, workers: Sequence[str] | None) -> str:
    access: list[list[int | str]] = []
    for index, step in enumerate(plan.steps):
        is_all = bool(step.access) and len(step.access) == index
        access.append([*step.access_list[: int(step.previous)], "all"] if is_all else step.access_list)
    return "\n".join(
        (
            f"model_id = {_json([_who(step, workers) for step in plan.steps])}",
            f"subtasks = {_json([step.subtask for step in plan.steps])}",
            f"access_list = {_json(access)}",
        )
    )


def _object(step: Step, labels: Sequence[int], workers: Sequence[str] | None) -> dict[str, Any]:
    enough = {} if step.enough is None else {"enough": step.enough}
    own = {} if step.label is None else {"id": step.label}
    subtask = renumbered(step.subtask, lambda index: labels[index])
    access = [PREVIOUS] * step.previous + [labels[seen] for seen in step.access]
    return {**own, "worker": _who(step, workers), "subtask": subtask, "access": access, **enough}


def _who(step: Step, workers: Sequence[str] | None) -> int | str:
    return step.worker if workers is None else workers[step.worker]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
