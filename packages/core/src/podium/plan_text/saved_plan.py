"""Reads plans that were saved as JSON, with numbers or names of workers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from podium.errors import PlanInvalid
from podium.plan_text.parser import parse_plan
from podium.types.plan import Plan


def read_saved_plan(text: str, workers: Sequence[str], max_steps: int) -> Plan:
    """Read a plan that `Plan.to_json` returned, with numbers or names of workers, or a plan in any spelling.

    Args:
        text: the plan.
        workers: names of the pool's workers.
        max_steps: maximum number of steps.

    Raises:
        PlanError: the text contains no valid plan.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, dict) and "schema" in data:
        return Plan.from_json(_numbered(data, workers))
    return parse_plan(text, workers=workers, max_steps=max_steps)


def worker_number(name: str, workers: Sequence[str], step: int) -> int:
    """Return the number of the worker that a step names.

    Raises:
        PlanInvalid: there is no such worker.
    """
    if name not in workers:
        told = f"step {step} names worker {name!r:.80}; the workers are {', '.join(workers)}"
        raise PlanInvalid("bad_worker", told, step=step)
    return workers.index(name)


def _numbered(data: Mapping[str, Any], workers: Sequence[str]) -> dict[str, Any]:
    """Return a saved plan with the names of workers replaced by their numbers."""
    rows = data.get("steps")
    if not isinstance(rows, list):
        return dict(data)
    steps = []
    for index, row in enumerate(rows):
        name = row.get("worker") if isinstance(row, dict) else None
        steps.append({**row, "worker": worker_number(name, workers, index)} if isinstance(name, str) else row)
    return {**data, "steps": steps}
