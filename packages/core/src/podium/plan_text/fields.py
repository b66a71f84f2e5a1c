"""Reads the fields of steps from literals: workers, subtasks, access lists and ids."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, NoReturn
from unicodedata import normalize

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.plan_text.literals import Node, Word
from podium.types.messages import storable
from podium.types.plan import (
    PREVIOUS,
    Plan,
    Step,
    bad_reference,
    forward_access,
    malformed_reference,
    no_previous,
    references_in,
    renumbered,
)

ID_KEYS = frozenset(
    (
        *("id", "idx", "index", "step", "number", "num", "no", "nr", "order", "position", "seq", "sequence"),
        *("stepid", "stepidx", "stepindex", "stepno", "stepnr", "stepnum", "stepnumber"),
        *("taskid", "taskindex", "tasknumber", "subtaskid", "subtaskindex", "subtasknumber", "nodeid"),
    )
)
"""Keys of ids, as `field_key` returns them."""

_LIKE_AN_ID = re.compile(r"(?!worker|model|agent).+(?:id|idx|index|number|num|no|nr|order|position|seq)")
"""Other keys that may be meant as ids, as `field_key` returns them."""
_NUMBER = re.compile(
    r"(?:(?:s|step|t|task|no|nr)[.:]?[ _#-]{0,2}|#[ ]?)?([+-]?[0-9]{1,18})(?:\.0*)?[):]?",
    re.IGNORECASE,
)
_LIKE_A_NUMBER = re.compile(
    r"\W*(?:(?:s|step|t|task|no|nr)\b[\W_]*)?[0-9]|(?:\S*[0-9]\S*|true|false)\Z", re.IGNORECASE
)
"""Matches ids that look like a number but are not one."""
_MOST_CHARS = 200
"""Number of characters of an id that are read."""
_SHOWN = 40
"""Maximum number of ids in an error message."""


class StepIds:
    """The ids of a plan's steps: all steps have one under the same key, or none; access lists name them."""

    def __init__(self) -> None:
        self._steps = 0
        self._keys: set[str] = set()
        self._positions: dict[int, int] = {}

    def add(self, fields: Sequence[tuple[str, Node]], start: int) -> None:
        """Add the next step: the keys of its object, as `field_key` returns them, and its start."""
        ids = list[tuple[str, int, int]]()
        for key, node in fields:
            number = step_number(node)
            if key in ID_KEYS and number is not None:
                ids.append((key, node.start, number))
            elif key in ID_KEYS and isinstance(node.value, str) and _LIKE_A_NUMBER.match(_normal(node.value)):
                # access lists could not name it
                told = f"has the {key} {node.value!r:.60}, which is not a whole number"
                _fail("bad_id", self._steps, node.start, f"{told}: give every step a different number")
        keys, numbers = {key for key, _, _ in ids}, {number for _, _, number in ids}
        for key, node in () if keys else fields:
            if key not in ID_KEYS and _LIKE_AN_ID.fullmatch(key) and step_number(node) is not None:
                told = (
                    f'has a number under {key!r}, which may be its id: write the numbers of steps under "id"'
                )
                _fail("bad_id", self._steps, node.start, f"{told}, or leave {key!r} out")
        if fault := self._fault(keys, numbers):
            told = f"{fault}: give every step a different number, under the same key"
            _fail("bad_id", self._steps, ids[0][1] if ids else start, told)
        self._positions |= dict.fromkeys(numbers, self._steps)
        self._keys = self._keys & keys if self._steps else keys
        self._steps += 1

    @property
    def latest(self) -> int | None:
        """The id of the last step; `None` if steps have no ids."""
        return next(reversed(self._positions), None)

    def _fault(self, keys: set[str], numbers: set[int]) -> str:
        """Return what is wrong with the ids of the next step; empty if they are valid."""
        if len(numbers) > 1:
            return f"has two ids, {' and '.join(map(str, sorted(numbers)))}"
        if self._steps and keys and not self._keys:
            return "has an id, and earlier steps have none"
        if self._keys and not keys:
            return "has no id, and earlier steps have one"
        if self._keys and not keys & self._keys:
            return f"has its id under {min(keys)!r}, and earlier steps have theirs under {min(self._keys)!r}"
        taken = [number for number in numbers if number in self._positions]
        return f"has the id {taken[0]} of an earlier step" if taken else ""

    def position(self, number: int, at: int) -> int:
        """Return the position of an earlier step to which the last step refers, at `at` in the text."""
        own, found = self._steps - 1, self.find(number)
        if found is not None:
            return found
        message = forward_access(own, number)
        if self._positions:
            *earlier, last = self._positions
            known = f" or ids of earlier steps ({', '.join(map(str, earlier[:_SHOWN]))})" if earlier else ""
            fault = f"the step with the id {last} lists {number}, which is not the id of an earlier step"
            message = f"{fault}: write []{known}"
        raise PlanInvalid("forward_access", message, step=own, position=at)

    def find(self, number: int) -> int | None:
        """Return the position of an earlier step by its number; `None` if there is no such step."""
        own = self._steps - 1
        found = self._positions.get(number, own) if self._positions else number
        return found if 0 <= found < own else None


def _fail(code: PlanInvalidCode, step: int, position: int, fault: str) -> NoReturn:
    raise PlanInvalid(code, f"step {step} {fault}", step=step, position=position)


def step_number(node: Node) -> int | None:
    """Return an id, or an entry of an access list, as a number (`"step 1"`, `"#1"`, `1.0`, …), or `None`."""
    value = node.value
    if not isinstance(value, str):
        return value if isinstance(value, int) else None
    found = _NUMBER.fullmatch(_normal(value))
    return int(found[1]) if found else None


def _normal(text: str) -> str:
    """Return the beginning of a text, with full-width digits and signs replaced by ASCII."""
    return normalize("NFKC", text.strip()[:_MOST_CHARS]).strip()


MAX_SUBTASK_CHARS = 16 * 1024
"""Maximum length of a subtask, in characters."""

Field = Literal["worker", "subtask", "access"]
FIELD_ORDER: tuple[Field, ...] = ("worker", "subtask", "access")
"""The required fields of a step. Steps written as objects may also have `enough`."""
FIELDS: Mapping[str, Field] = {
    "accesslist": "access",
    "accesslists": "access",
    "access": "access",
    "modelid": "worker",
    "modelids": "worker",
    "subtask": "subtask",
    "subtasks": "subtask",
    "worker": "worker",
    "workerid": "worker",
    "workerids": "worker",
    "workers": "worker",
}
"""The accepted names of a step's fields, as `field_key` returns them."""
_STEPS = frozenset(("steps", "plan"))
_NONE: Mapping[str, Node] = {}

_ORDINAL = re.compile(r"(?:(?:worker|model|agent)(?:[ _]?id)?[ _]?#?)?([0-9]{1,6})", re.IGNORECASE)


class Roster(NamedTuple):
    """The workers that a plan may name, and its maximum length."""

    size: int
    names: tuple[str, ...]
    """Names of the workers, in the pool's order; empty if workers have only numbers."""
    max_steps: int
    previous: bool
    """Whether there is a previous round, which access lists may name."""
    refused: Mapping[str, str]
    """Names of further workers, each with the reason why no plan may have it."""

    def named(self, name: str) -> tuple[int, ...]:
        """Return the worker with this name, or all workers whose name differs only in case."""
        if name in self.names:
            return (self.names.index(name),)
        folded = name.casefold()
        return tuple(number for number, known in enumerate(self.names) if known.casefold() == folded)


def field_key(name: str) -> str:
    """Return a field's name in the form of the keys of `FIELDS`."""
    if name in FIELDS:
        return name
    return name.strip().lower().replace("_", "").replace(" ", "").replace("-", "")


def plan_object(node: Node) -> Node | None:
    """Return the object that contains a whole plan: `node` or one of its values; `None` if there is none."""
    if not isinstance(node.value, dict):
        return None
    lists = {field_key(key) for key, value in node.value.items() if isinstance(value.value, list)}
    if not lists.isdisjoint(_STEPS) or {"worker", "subtask"} <= {FIELDS.get(key) for key in lists}:
        return node
    for value in node.value.values():
        found = plan_object(value)
        if found is not None:
            return found
    return None


def is_row(node: Node, *, after_row: bool) -> bool:
    """Return whether an object is a step: it has two fields of a step, or after a row one."""
    assert isinstance(node.value, dict)
    fields = {FIELDS.get(field_key(key)) for key in node.value} - {None}
    return len(fields) >= (1 if after_row else 2)


def read_object(node: Node, roster: Roster) -> Plan:
    """Read the plan of an object that `plan_object` returned."""
    assert isinstance(node.value, dict)
    lists = [(field_key(key), value) for key, value in node.value.items() if isinstance(value.value, list)]
    rows = next((found for key, found in lists if key in _STEPS), None)
    if rows is None:
        return read_columns(_fields(node, None), roster, {k: v for k, v in lists if k in ID_KEYS})
    assert isinstance(rows.value, list)
    _check_length(len(rows.value), roster, rows.start)
    ids = StepIds()
    return Plan(tuple(read_row(row, index, roster, ids) for index, row in enumerate(rows.value)))


def read_columns(columns: Mapping[Field, Node], roster: Roster, ids: Mapping[str, Node] = _NONE) -> Plan:
    """Read a plan from three lists of equal length, and lists of the steps' ids by key."""
    lists: dict[str, list[Node]] = {}
    for field, node in [*((field, columns[field]) for field in FIELD_ORDER), *ids.items()]:
        if not isinstance(node.value, list):
            message = f"{field} is not a list: write [ ] around one entry per step"
            raise PlanInvalid("bad_shape", message, position=node.start)
        lists[field] = node.value
    lengths, start = {key: len(value) for key, value in lists.items()}, columns["worker"].start
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{length} for {field}" for field, length in lengths.items())
        message = f"the lists have different lengths ({told}): write one entry per step in each"
        raise PlanInvalid("unequal_lists", message, position=start)
    _check_length(lengths["worker"], roster, start)
    numbered, steps = StepIds(), list[Step]()
    for index, row in enumerate(zip(lists["worker"], lists["subtask"], lists["access"], strict=True)):
        numbered.add([(key, lists[key][index]) for key in ids], row[0].start)
        steps.append(_read_step(index, *row, roster, numbered))
    return Plan(tuple(steps))


def read_row(node: Node, index: int, roster: Roster, ids: StepIds) -> Step:
    """Read the step at an index of its plan from an object, and add its id to those of the earlier steps."""
    if not isinstance(node.value, dict):
        told = 'is not an object: write {"worker": …, "subtask": …, "access": …}'
        _fail("bad_shape", index, node.start, told)
    _check_length(index + 1, roster, node.start)
    found = _fields(node, index)
    others = [(field_key(key), value) for key, value in node.value.items()]
    ids.add([(key, value) for key, value in others if key not in FIELDS], node.start)
    step = _read_step(index, found["worker"], found["subtask"], found["access"], roster, ids)
    enough = [value for key, value in others if key == "enough"]
    if len(enough) > 1:
        _fail("duplicate_field", index, enough[1].start, "has two keys for enough: write one")
    return _with_enough(step, index, enough[0]) if enough else step


def _with_enough(step: Step, index: int, node: Node) -> Step:
    value: Any = node.value
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("all", "none", "null"):
            return step
        value = int(word) if word.isdecimal() and word.isascii() and len(word) <= 6 else value
    least: Any = value if isinstance(value, int | str) else "…"
    try:
        return replace(step, enough=least)
    except PlanInvalid as error:
        raise PlanInvalid("bad_enough", f"step {index}: {error}", step=index, position=node.start) from None


def _fields(node: Node, step: int | None) -> dict[Field, Node]:
    """Return the three fields of an object; other keys are ignored."""
    assert isinstance(node.value, dict)
    found: dict[Field, Node] = {}
    for key, value in node.value.items():
        field = FIELDS.get(field_key(key))
        if field in found:
            whole = "the plan" if step is None else f"step {step}"
            message = f"{whole} has two keys for {field}: write one"
            raise PlanInvalid("duplicate_field", message, step=step, position=value.start)
        if field is not None:
            found[field] = value
    for field in FIELD_ORDER:
        if field not in found:
            told = f"step {step} lacks {field}: give every step worker, subtask and access"
            if step is None:
                told = f"the plan lacks the list for {field}: write all three, one entry per step in each"
            raise PlanInvalid("missing_field", told, step=step, position=node.start)
    return found


def _check_length(steps: int, roster: Roster, position: int) -> None:
    if steps > roster.max_steps:
        allowed = f"the maximum is {roster.max_steps} (Limits.plan_steps or Policy.steps)"
        message = f"the plan has {steps} or more steps; {allowed}: merge steps"
        raise PlanInvalid("too_many_steps", message, position=position)


def _read_step(index: int, worker: Node, subtask: Node, access: Node, roster: Roster, ids: StepIds) -> Step:
    text, number = _read_subtask(index, subtask), _read_worker(index, worker, roster)
    seen, previous = _read_access(index, access, roster, ids)
    wrong = malformed_reference(text)
    wrong = wrong or next((str(n) for n in references_in(text) if ids.find(n) not in seen), "")
    if wrong:
        message = bad_reference(f"the subtask of step {index}", wrong)
        raise PlanInvalid("bad_reference", message, step=index, position=subtask.start)
    text = renumbered(text, lambda number: ids.position(number, subtask.start))
    return Step(number, text, seen, previous=previous, label=ids.latest)


def _read_subtask(index: int, node: Node) -> str:
    code: PlanInvalidCode
    if not isinstance(node.value, str) or isinstance(node.value, Word):
        code, fault = "bad_subtask", "not text: write the worker's task in quotes"
    elif not (text := storable(node.value)).strip():
        code, fault = "empty_subtask", "empty: write the worker's task"
    elif len(text) > MAX_SUBTASK_CHARS:
        code, fault = (
            "subtask_too_long",
            f"{len(text):,} characters long: write at most {MAX_SUBTASK_CHARS:,}",
        )
    else:
        return text
    message = f"the subtask of step {index} is {fault}"
    raise PlanInvalid(code, message, step=index, position=node.start)


def _read_worker(index: int, node: Node, roster: Roster) -> int:
    value, fault = node.value, "which does not exist"
    if isinstance(value, str):
        name = value.strip()
        named, ordinal = roster.named(name), _ORDINAL.fullmatch(name)
        if len(named) > 1:
            fault = f"which may mean any of {len(named)} workers"
        elif named:
            value = named[0]
        elif ordinal:
            value = int(ordinal[1])
        elif name in roster.refused:
            fault = f"which may not work here: {roster.refused[name]}"
    if isinstance(value, int) and 0 <= value < roster.size:
        return value
    if isinstance(value, list | dict):
        message = f"the worker of step {index} is a list or an object: write one worker, {_choices(roster)}"
        raise PlanInvalid("bad_worker", message, step=index, position=node.start)
    told = f"names worker {value!r:.60}, {fault}: write {_choices(roster)}"
    _fail("unknown_worker", index, node.start, told)


def _choices(roster: Roster) -> str:
    """Return the valid workers in words: numbers, and names if they are short."""
    numbers = f"a number from 0 to {roster.size - 1}" if roster.size > 1 else "0"
    names = ", ".join(roster.names)
    return f"{numbers}, or a name ({names})" if 0 < len(names) <= 200 else numbers


def _read_access(index: int, node: Node, roster: Roster, ids: StepIds) -> tuple[tuple[int, ...], bool]:
    """Return the indices of the steps that a list names, and whether it names the previous round."""
    entries = node.value if isinstance(node.value, list) else [node]
    seen: set[int] = set()
    previous = False
    for entry in entries:
        number = step_number(entry)
        word = entry.value.strip().lower() if isinstance(entry.value, str) else ""
        if number is not None:
            seen.add(ids.position(number, entry.start))
        elif word == "all":
            seen.update(range(index))
        elif word == PREVIOUS:
            if not roster.previous:
                raise PlanInvalid("no_previous", no_previous(index), step=index, position=entry.start)
            previous = True
        else:
            words = '[], "all", "previous" or' if roster.previous else '[], "all" or'
            told = f"lists {entry.value!r:.60}: write {words} numbers of earlier steps"
            _fail("bad_access", index, entry.start, told)
    return tuple(sorted(seen)), previous
