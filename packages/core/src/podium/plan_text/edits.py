"""Reads and edits saved plans."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podium.errors import PlanInvalid
from podium.plan_text.parser import parse_plan
from podium.types.plan import Plan
from podium.types.scope import Place
from podium.types.steps import PREVIOUS, Block, Step, depends_on, numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Changes a step; fields that are `None` stay unchanged."""

    step: int | str
    """Index of the step, from 0; of a step inside of a block its name, such as `3.0`."""
    worker: int | None = None
    subtask: str | None = None
    access: tuple[int, ...] | None = None
    enough: int | None = None
    """The number of listed steps that must be `ok`; the length of the access list means all of them."""
    previous: bool | None = None
    """Whether the step sees the previous round."""

    def apply(self, plan: Plan) -> Plan:
        """Return the plan with the step changed."""
        place = _place(self.step, plan)
        names = ("worker", "subtask", "access", "enough", "previous")
        changes = {name: value for name in names if (value := getattr(self, name)) is not None}
        if isinstance(place.step, Block) and not changes.keys().isdisjoint(("worker", "subtask")):
            told = f"step {place.name} is a block, without a worker and a subtask: change a step inside of it"
            raise PlanInvalid("bad_block", f"{told}, such as {place.name}.0", step=place.path[0])
        return plan.with_step(place.path, replace(place.step, **changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Inserts a step."""

    at: int
    """Index of the new step, from 0. To append the step, write the number of steps in the plan."""
    step: Step
    """The new step. Its access list has the indices of earlier steps. In a plan with labels, the step
    gets the next label."""

    def apply(self, plan: Plan) -> Plan:
        """Return the plan with the step inserted."""
        at = _index(self.at, len(plan.steps) + 1, "position")
        kept = numbered(plan.steps, lambda old: old + (old >= at))
        labels = [step.label for step in kept if step.label is not None]
        new = replace(self.step, label=max(labels) + 1 if labels else None)
        return replace(plan, steps=(*kept[:at], new, *kept[at:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Removes a step that is on no access list."""

    step: int
    """Index of the step, from 0."""

    def apply(self, plan: Plan) -> Plan:
        """Return the plan without the step."""
        at = _index(self.step, len(plan.steps))
        listing = [index for index, step in enumerate(plan.steps) if at in depends_on(step)]
        if listing:
            who = ", ".join(map(str, listing))
            told = f"step {at} cannot be removed while step {who} lists it: change that access list first"
            raise PlanInvalid("bad_access", told, step=at)
        rest = (*plan.steps[:at], *plan.steps[at + 1 :])
        return replace(plan, steps=numbered(rest, lambda old: old - (old > at)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Moves a step; it must stay after the steps on its access list, and before the steps that list it."""

    step: int
    """Index of the step, from 0."""
    to: int
    """New index of the step."""

    def apply(self, plan: Plan) -> Plan:
        """Return the plan with the step moved."""
        count = len(plan.steps)
        at, to = _index(self.step, count), _index(self.to, count, "position")
        order = [index for index in range(count) if index != at]
        order.insert(to, at)
        return replace(plan, steps=numbered([plan.steps[old] for old in order], order.index))


Edit = Change | Insert | Remove | Move
"""Any edit of a plan."""


def edit_plan(plan: Plan, *edits: Edit) -> Plan:
    """Return the plan with the edits applied in order. An edited plan has no `planner`.

    Raises:
        PlanInvalid: an edit is impossible or breaks a rule; the error's `step` is the step concerned.
    """
    for edit in edits:
        plan = edit.apply(plan)
    return replace(plan, planner=None) if edits else plan


def read_edits(data: object, workers: Sequence[str]) -> tuple[Edit, ...]:
    """Read edits from plain JSON data: a list of objects, each with an `op`.

    - `{"op": "change", "step": 0, "worker": 1, "subtask": "…", "access": [], "enough": 1}`:
      only `step` is required, inside of a block as in `"3.0"`; `access` replaces the whole access list;
    - `{"op": "insert", "at": 0, "worker": 1, "subtask": "…"}`: `access` and `enough` are optional;
    - `{"op": "remove", "step": 0}`;
    - `{"op": "move", "step": 0, "to": 1}`.

    Args:
        data: the JSON data.
        workers: names of the pool's workers; edits may use names or numbers.

    Raises:
        PlanInvalid: an edit is malformed or has unknown keys.
    """
    if not isinstance(data, list):
        raise PlanInvalid("bad_shape", f"edits must be a list of objects, not {data!r:.60}")
    return tuple(_read(item, f"edit {number}", workers) for number, item in enumerate(data))


_KEYS: Mapping[str, tuple[type[Any], frozenset[str], frozenset[str]]] = {
    "change": (Change, frozenset({"step"}), frozenset({"worker", "subtask", "access", "enough"})),
    "insert": (Insert, frozenset({"at", "worker", "subtask"}), frozenset({"access", "enough"})),
    "remove": (Remove, frozenset({"step"}), frozenset()),
    "move": (Move, frozenset({"step", "to"}), frozenset()),
}
"""For each `op`, its class, the required keys and the optional keys."""
_WANTED = {"access": f'a list of numbers or "{PREVIOUS}"', "subtask": "text", "worker": "a number or a name"}


def _read(item: object, where: str, workers: Sequence[str]) -> Edit:
    op = item.get("op") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(op, str) or op not in _KEYS:
        raise PlanInvalid("bad_shape", f"{where} is {item!r:.60}: write an op of {', '.join(_KEYS)}")
    kind, must, may = _KEYS[op]
    keys = [key for key in item if key != "op"]
    if not must <= set(keys) <= must | may:
        told = ", ".join([*sorted(must), *(f"{key} (optional)" for key in sorted(may))])
        has = ", ".join(map(str, keys)) or "no keys"
        raise PlanInvalid("bad_shape", f"{where} has {has}; the keys of {op!r} are {told}")
    facts = {key: _value(kind, key, item[key], where, workers) for key in keys}
    if "access" in facts:
        facts["previous"] = PREVIOUS in facts["access"]
        facts["access"] = tuple(seen for seen in facts["access"] if seen != PREVIOUS)
    edit: Edit = kind(at=facts.pop("at"), step=Step(**facts)) if kind is Insert else kind(**facts)
    return edit


def _value(kind: type[Any], key: str, value: object, where: str, workers: Sequence[str]) -> Any:
    if key == "worker" and isinstance(value, str):
        return worker_number(value, workers, where)
    if key == "step" and kind is Change and isinstance(value, str):
        return value
    if key == "access":
        if isinstance(value, list) and all(type(seen) is int or seen == PREVIOUS for seen in value):
            return tuple(value)
    elif isinstance(value, str) if key == "subtask" else type(value) is int:
        return value
    wanted = _WANTED.get(key, "a number")
    raise PlanInvalid("bad_shape", f"{where}: {key} is {value!r:.60}: write {wanted}")


def _place(name: int | str, plan: Plan) -> Place:
    places = plan.outline
    found = next((place for place in places if place.name == str(name)), None)
    if found is None:
        known = ", ".join(place.name for place in places)
        raise PlanInvalid("bad_shape", f"there is no step {name!s:.60}: the steps are {known}")
    return found


def _index(value: int, count: int, what: str = "step") -> int:
    if not 0 <= value < count:
        raise PlanInvalid("bad_shape", f"there is no {what} {value}: write a number from 0 to {count - 1}")
    return value


def read_saved_plan(text: str, workers: Sequence[str], max_steps: int) -> Plan:
    """Read a plan that `Plan.to_json` returned, or a plan in any spelling; it may name workers."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or "schema" not in data:
        return parse_plan(text, workers=workers, max_steps=max_steps, strict=True)
    _set_numbers(data.get("steps"), workers, "step ")
    return Plan.from_json(data)


def _set_numbers(rows: object, workers: Sequence[str], place: str) -> None:
    """Replace the names of workers in the JSON of steps."""
    for index, row in enumerate(rows if isinstance(rows, list) else ()):
        if isinstance(row, dict) and isinstance(name := row.get("worker"), str):
            row["worker"] = worker_number(name, workers, f"{place}{index}")
        if isinstance(row, dict):
            _set_numbers(row.get("steps"), workers, f"{place}{index}.")


def worker_number(name: str, workers: Sequence[str], where: str) -> int:
    """Return the number of the worker that a step or an edit names."""
    if name not in workers:
        told = f"{where} names worker {name!r:.80}; the workers are {', '.join(workers)}"
        raise PlanInvalid("unknown_worker", told)
    return workers.index(name)
