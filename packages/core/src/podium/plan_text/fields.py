"""Reads the fields of steps from literals: workers, subtasks, access lists and ids."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.plan_text.ids import ID_KEYS, StepIds, fail, step_number
from podium.plan_text.literals import Node, Word, value_of
from podium.types.messages import storable
from podium.types.plan import Plan, no_previous
from podium.types.references import (
    Condition,
    bad_reference,
    condition_from_json,
    malformed_reference,
    references_in,
    renumbered,
)
from podium.types.scope import MOST_DEPTH
from podium.types.steps import OUTER, PREVIOUS, AnyStep, Block, Step

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
_OF_CALL = ("returns",)
_OF_BOTH = ("enough", "each", "as", "when", "else")
_OF_BLOCK = ("each", "as", "when", "else", "until", "most", "access", "accesslist", "enough")
"""Keys by which an object with `steps` is a block."""
_MEANT = {"if": "when", "condition": "when", "foreach": "each", "repeat": "until", "while": "until"}
_MEANT |= {"maxturns": "most", "schema": "returns", "outputschema": "returns"}
"""Keys of other languages, each with the key that says it here."""
_NEAR = 0.75
"""Similarity from which a key is taken for a misspelt one, from 0 to 1."""
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
    is_strict: bool
    """Whether an unknown key is an error; otherwise it is ignored, and a note says so."""
    notes: list[str]
    """What was ignored."""

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
    if not isinstance(node.value, dict) or is_block(node):
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
    return len(fields) >= (1 if after_row else 2) or is_block(node)


def is_block(node: Node) -> bool:
    """Return whether an object is a step with steps of its own, and not a whole plan."""
    if not isinstance(node.value, dict):
        return False
    keys = {field_key(key) for key in node.value}
    return "steps" in keys and not keys.isdisjoint(_OF_BLOCK)


def read_object(node: Node, roster: Roster) -> Plan:
    """Read the plan of an object that `plan_object` returned."""
    assert isinstance(node.value, dict)
    lists = [(field_key(key), value) for key, value in node.value.items() if isinstance(value.value, list)]
    rows = next((found for key, found in lists if key in _STEPS), None)
    if rows is None:
        return read_columns(_fields(node, None), roster, {k: v for k, v in lists if k in ID_KEYS})
    assert isinstance(rows.value, list)
    _check_length(len(rows.value), roster, rows.start)
    if roster.is_strict:
        _check_top(node)
    ids = StepIds()
    return Plan(tuple(read_row(row, index, roster, Place(ids)) for index, row in enumerate(rows.value)))


def _check_top(node: Node) -> None:
    """Raise `PlanInvalid` for a key beside the steps of a plan."""
    assert isinstance(node.value, dict)
    for key, value in node.value.items():
        if field_key(key) not in _STEPS:
            message = f"the plan has the unknown key {key!r:.60} beside steps: leave it out"
            raise PlanInvalid("unknown_key", message, position=value.start)


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


class Place(NamedTuple):
    """Where steps are: in the plan, or in a block of it."""

    ids: StepIds
    """The ids of the steps so far."""
    outer: StepIds | None = None
    """The ids of the steps around the block; `None` in the plan itself."""
    name: str = ""
    """The number of the block with a dot; empty in the plan itself."""
    top: int | None = None
    """The index of the plan's step that has the block; `None` in the plan itself."""


def read_row(node: Node, index: int, roster: Roster, place: Place) -> AnyStep:
    """Read the step at an index of its plan from an object, and add its id to those of the earlier steps."""
    if not isinstance(node.value, dict):
        told = 'is not an object: write {"worker": …, "subtask": …, "access": …}'
        fail("bad_shape", index, node.start, told)
    _check_length(index + 1, roster, node.start)
    try:
        return _read_keys(node, index, roster, place)
    except PlanInvalid as error:
        if place.name:
            told = str(error).removeprefix(f"step {index} ")
            told = (
                f"step {place.name}{index} {told}"
                if told != str(error)
                else f"in step {place.name[:-1]}: {told}"
            )
            raise PlanInvalid(error.code, told, step=place.top, position=error.position) from None
        raise


def _read_keys(node: Node, index: int, roster: Roster, place: Place) -> AnyStep:
    assert isinstance(node.value, dict)
    ids, has_steps = place.ids, "steps" in map(field_key, node.value)
    others = [(field_key(key), value) for key, value in node.value.items()]
    ids.add([(key, value) for key, value in others if key not in FIELDS], node.start)
    keys = _keys_of(node, index, roster, is_block=has_steps)
    facts = _OptionalKeys(index, place).facts(keys)
    if has_steps:
        seen, *words = (
            _read_access(index, keys["access"], roster, place) if "access" in keys else ((), False, False)
        )
        facts |= {"access": seen, "previous": words[0], "outer": words[1], "label": ids.latest}
        return _made(index, node, keys, lambda: _read_block(index, keys, facts, roster, place))
    found = _fields(node, index)
    number, text = _read_worker(index, found["worker"], roster), _read_subtask(index, found["subtask"])
    seen, previous, outer = _read_access(index, found["access"], roster, place)
    text = _with_positions(index, text, seen, found["subtask"], place)
    facts |= {"previous": previous, "outer": outer, "label": ids.latest}
    return _made(index, node, keys, lambda: Step(number, text, seen, **facts))


_KEY_OF: Mapping[str, str] = {"bad_enough": "enough", "bad_returns": "returns", "bad_each": "each"}
"""For codes of errors, the key whose value is wrong."""


def _made(index: int, node: Node, keys: Mapping[str, Node], make: Callable[[], AnyStep]) -> AnyStep:
    """Return a step; its error gets the step's number and position."""
    try:
        return make()
    except PlanInvalid as error:
        if error.position is not None:
            raise
        told = str(error) if str(error).startswith("step ") else f"step {index}: {error}"
        start = keys.get(_KEY_OF.get(error.code, ""), node).start
        raise PlanInvalid(error.code, told, step=index, position=start) from None


def _read_block(
    index: int, keys: Mapping[str, Node], facts: dict[str, Any], roster: Roster, place: Place
) -> Block:
    rows, ids = keys["steps"], StepIds()
    if not isinstance(rows.value, list):
        fail("bad_block", index, rows.start, "has another value than a list for its steps: write a list")
    top = index if place.top is None else place.top
    if place.name.count(".") >= MOST_DEPTH:
        fail("bad_block", index, rows.start, f"nests blocks deeper than {MOST_DEPTH}")
    inside = Place(ids, place.ids, f"{place.name}{index}.", top)
    steps = tuple(read_row(row, number, roster, inside) for number, row in enumerate(rows.value))
    if "until" in keys:
        until = _OptionalKeys(index, place).condition("until", keys["until"])
        ref = renumbered(until.ref, ids.any_position, lambda number: place.ids.position(number, rows.start))
        facts["until"] = replace(until, ref=ref)
    if "most" in keys:
        facts["most"] = keys["most"].value
    return Block(steps=steps, **facts)


def _keys_of(node: Node, index: int, roster: Roster, *, is_block: bool) -> dict[str, Node]:
    """Return the values of the known keys of a step; other keys are errors, or are noted and ignored."""
    assert isinstance(node.value, dict)
    known = (*_OF_BOTH, *(("steps", "until", "most") if is_block else _OF_CALL))
    found: dict[str, Node] = {}
    for key, value in node.value.items():
        name = FIELDS.get(field_key(key), field_key(key))
        if name in known or name == "access":
            if name in found:
                fail("duplicate_field", index, value.start, f"has two keys for {name}: write one")
            found[name] = value
        elif name in ("worker", "subtask", *_OF_CALL, "steps", "until", "most"):
            if is_block or name in ("until", "most"):
                with_steps = "a step with steps has no" if is_block else "only a step with steps has"
                fail("bad_block", index, value.start, f"has the key {key!r:.60}: {with_steps} {name}")
        elif name not in ID_KEYS:
            _check_key(key, name, value, index, roster)
    return found


def _check_key(key: str, name: str, value: Node, index: int, roster: Roster) -> None:
    """Raise `PlanInvalid` for an unknown key that may be meant as a known one; note another key."""
    every = (*FIELD_ORDER, *_OF_BOTH, *_OF_CALL, "steps", "until", "most")
    near = _MEANT.get(name) or next(iter(get_close_matches(name, every, n=1, cutoff=_NEAR)), "")
    if near and (name in _MEANT or abs(len(near) - len(name)) <= 2):
        fail("unknown_key", index, value.start, f"has the unknown key {key!r:.60}: did you mean {near!r}?")
    if roster.is_strict:
        fail(
            "unknown_key",
            index,
            value.start,
            f"has the unknown key {key!r:.60}: the keys are {', '.join(every)}",
        )
    roster.notes.append(f"step {index} has the unknown key {key!r:.60}, which was ignored")


@dataclass(frozen=True, slots=True)
class _OptionalKeys:
    """Reads the optional keys of the step at an index."""

    index: int
    place: Place

    def facts(self, keys: Mapping[str, Node]) -> dict[str, Any]:
        """Return the fields of a step for its optional keys."""
        facts: dict[str, Any] = {}
        if "enough" in keys and (least := _enough(keys["enough"])) is not None:
            facts["enough"] = least
        if "returns" in keys:
            facts["returns"] = self._data("returns", keys["returns"])
        if "each" in keys:
            each = self._data("each", keys["each"])
            facts["each"] = self._renumbered(each, keys["each"]) if isinstance(each, str) else _frozen(each)
        if "as" in keys:
            facts["item_name"] = keys["as"].value
        if "when" in keys:
            when = self.condition("when", keys["when"])
            facts["when"] = replace(when, ref=self._renumbered(when.ref, keys["when"]))
        if "else" in keys:
            number = step_number(keys["else"])
            if number is None:
                fail("bad_condition", self.index, keys["else"].start, "has an else that names no step")
            facts["otherwise"] = self.place.ids.position(number, keys["else"].start)
        return facts

    def condition(self, key: str, node: Node) -> Condition:
        """Read a condition, with the numbers of the text."""
        try:
            found = condition_from_json(self._data(key, node))
        except PlanInvalid as error:
            fail(error.code, self.index, node.start, f"has a bad {key}: {error}")
        if found is None:
            fail("bad_condition", self.index, node.start, f"has no condition under {key}: leave the key out")
        return found

    def _data(self, key: str, node: Node) -> Any:
        try:
            return value_of(node)
        except ValueError:
            fail("bad_shape", self.index, node.start, f"has a bad {key}: write JSON, with texts in quotes")

    def _renumbered(self, text: str, node: Node) -> str:
        ids, outer = self.place.ids, self.place.outer

        def position(number: int) -> int:
            return ids.position(number, node.start)

        return renumbered(
            text, position, None if outer is None else lambda number: outer.position(number, node.start)
        )


def _frozen(each: Any) -> Any:
    return tuple(each) if isinstance(each, list) else each


def _enough(node: Node) -> Any:
    """Return the number that must be `ok`; `None` for all."""
    value: Any = node.value
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("all", "none", "null"):
            return None
        value = int(word) if word.isdecimal() and word.isascii() and len(word) <= 6 else value
    return value if isinstance(value, int | str) else "…"


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
    place = Place(ids)
    seen, previous, outer = _read_access(index, access, roster, place)
    text = _with_positions(index, text, seen, subtask, place)
    return Step(number, text, seen, previous=previous, label=ids.latest, outer=outer)


def _with_positions(index: int, text: str, seen: Sequence[int], node: Node, place: Place) -> str:
    """Return a subtask with the positions of steps in its references."""
    ids, outer = place.ids, place.outer
    wrong = malformed_reference(text)
    wrong = wrong or next((str(n) for n in references_in(text) if ids.find(n) not in seen), "")
    if wrong:
        message = bad_reference(f"the subtask of step {index}", wrong)
        raise PlanInvalid("bad_reference", message, step=index, position=node.start)

    def position(number: int) -> int:
        return ids.position(number, node.start)

    return renumbered(
        text, position, None if outer is None else lambda number: outer.position(number, node.start)
    )


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
    told = f"step {index} names worker {value!r:.60}, {fault}: write {_choices(roster)}"
    raise PlanInvalid("unknown_worker", told, step=index, position=node.start)


def _choices(roster: Roster) -> str:
    """Return the valid workers in words: numbers, and names if they are short."""
    numbers = f"a number from 0 to {roster.size - 1}" if roster.size > 1 else "0"
    names = ", ".join(roster.names)
    return f"{numbers}, or a name ({names})" if 0 < len(names) <= 200 else numbers


def _read_access(index: int, node: Node, roster: Roster, place: Place) -> tuple[tuple[int, ...], bool, bool]:
    """Return the steps that a list names, and whether it names the previous round and the outer plan."""
    entries = node.value if isinstance(node.value, list) else [node]
    seen, found = set[int](), set[str]()
    is_top = place.top is None
    for entry in entries:
        number = step_number(entry)
        word = entry.value.strip().lower() if isinstance(entry.value, str) else ""
        if number is not None:
            seen.add(place.ids.position(number, entry.start))
        elif word == "all":
            seen.update(range(index))
        elif word == PREVIOUS:
            if is_top and not roster.previous:
                raise PlanInvalid("no_previous", no_previous(index), step=index, position=entry.start)
            found.add(word)
        elif word == OUTER and not is_top:
            found.add(word)
        else:
            words = (
                ["[]", '"all"']
                + ['"previous"'] * (roster.previous or not is_top)
                + ['"outer"'] * (not is_top)
            )
            told = f"lists {entry.value!r:.60}: write {', '.join(words)} or numbers of earlier steps"
            fail("bad_access", index, entry.start, told)
    return tuple(sorted(seen)), PREVIOUS in found, OUTER in found
