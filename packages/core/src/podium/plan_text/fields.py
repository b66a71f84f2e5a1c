"""Reads the fields of steps from literals: workers, subtasks, access lists and ids."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.plan_text.ids import ID_KEYS, StepIds, step_number
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
_OF_BOTH = ("access", "enough", "each", "as", "when", "else")
_OF_CALL = ("worker", "subtask", "returns", "tools")
_OF_BLOCK = ("steps", "until", "most", "plan", "args")
_OF_LOOP = ("until", "most")
_KEYS = (*_OF_BOTH[1:], *_OF_CALL[2:], *_OF_BLOCK)
"""The optional keys of steps, and `steps`."""
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
    is_inner: bool = False
    """Whether another plan may be around the steps."""
    text: Sequence[str] = ()
    """The pieces of the text so far; empty without a text."""

    def line_at(self, position: int) -> int:
        """Return the line of a position in the text, from 1; 0 without a text."""
        return "".join(self.text).count("\n", 0, position) + 1 if self.text else 0

    @classmethod
    def strict(cls, workers: Sequence[str]) -> "Roster":
        """Return a roster for the steps of files, whose number is checked later."""
        return cls(
            len(workers),
            tuple(workers),
            sys.maxsize,
            previous=False,
            refused={},
            is_strict=True,
            notes=[],
            is_inner=True,
        )

    def named(self, name: str) -> tuple[int, ...]:
        """Return the worker with this name, or all workers whose name differs only in case."""
        if name in self.names:
            return (self.names.index(name),)
        folded = name.casefold()
        return tuple(number for number, known in enumerate(self.names) if known.casefold() == folded)


def node_of(data: Any) -> Node:
    """Return JSON data as a literal without a position."""
    if isinstance(data, Mapping):
        return Node(0, {str(key): node_of(value) for key, value in data.items()})
    if isinstance(data, list | tuple):
        return Node(0, [node_of(each) for each in data])
    is_word = data is None or isinstance(data, bool | float)
    return Node(0, Word(json.dumps(data)) if is_word else data)


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
    """Return whether an object is a step with steps of its own or a saved plan, and not a whole plan."""
    if not isinstance(node.value, dict):
        return False
    keys = {field_key(key): value.value for key, value in node.value.items()}
    is_saved = isinstance(keys.get("plan"), str) and "subtask" not in keys
    return is_saved or ("steps" in keys and not keys.keys().isdisjoint({*_OF_BOTH, *_OF_LOOP, "accesslist"}))


def read_object(node: Node, roster: Roster) -> Plan:
    """Read the plan of an object that `plan_object` returned."""
    assert isinstance(node.value, dict)
    lists = [(field_key(key), value) for key, value in node.value.items() if isinstance(value.value, list)]
    rows = next((found for key, found in lists if key in _STEPS), None)
    if rows is None:
        return read_columns(_lists(node), roster, {k: v for k, v in lists if k in ID_KEYS})
    assert isinstance(rows.value, list)
    check_length(len(rows.value), roster, rows.start)
    for key, value in node.value.items() if roster.is_strict else ():
        if field_key(key) not in _STEPS:
            message = f"the plan has the unknown key {key!r:.60} beside steps: leave it out"
            raise PlanInvalid("unknown_key", message, position=value.start)
    ids = StepIds()
    steps = [read_row(row, roster, ids) for row in rows.value]
    return plan_of(steps, [row.start for row in rows.value])


def plan_of(steps: Sequence[AnyStep], starts: Sequence[int]) -> Plan:
    """Return the plan of steps; an error has the start of its step in the text."""
    try:
        return Plan(tuple(steps))
    except PlanInvalid as error:
        if error.step is not None:
            error.position = starts[error.step]
        raise


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
    check_length(lengths["worker"], roster, start)
    known, steps = StepIds(), list[AnyStep]()
    for index, worker in enumerate(lists["worker"]):
        known.begin()
        known.add([(key, lists[key][index]) for key in ids], worker.start)
        steps.append(_read_call({field: lists[field][index] for field in FIELD_ORDER}, {}, roster, known))
    return plan_of(steps, [node.start for node in lists["subtask"]])


def read_row(node: Node, roster: Roster, ids: StepIds) -> AnyStep:
    """Read the next step from an object, and add its id to those of the earlier steps."""
    ids.begin()
    if not isinstance(node.value, dict):
        ids.fail("bad_shape", node.start, 'is not an object: write {"worker": …, "subtask": …, "access": …}')
    check_length(ids.own + 1, roster, node.start)
    named = [(field_key(key), value) for key, value in node.value.items()]
    ids.add([(key, value) for key, value in named if key not in FIELDS], node.start)
    is_block = not dict(named).keys().isdisjoint(_STEPS)
    keys = _keys_of(node, is_block=is_block, roster=roster, ids=ids)
    for field in () if is_block else FIELD_ORDER:
        if field not in keys:
            told = f"lacks {field}: give every step worker, subtask and access"
            ids.fail("missing_field", node.start, told)
    facts = {"label": ids.latest} | _optional(keys, ids)
    try:
        return _read_block(keys, facts, roster, ids) if is_block else _read_call(keys, facts, roster, ids)
    except PlanInvalid as error:
        if error.position is not None:
            raise
        start = keys.get(_KEY_OF.get(error.code, ""), node).start
        raise ids.fault(error.code, start, f"step {ids.name}: {error}") from None


_KEY_OF: Mapping[str, str] = {"bad_enough": "enough", "bad_returns": "returns", "bad_each": "each"}
"""For codes of errors, the key whose value is wrong."""


def _read_call(keys: Mapping[str, Node], facts: Mapping[str, Any], roster: Roster, ids: StepIds) -> Step:
    """Read a step that calls a worker; `facts` has its optional fields."""
    subtask = keys["subtask"]
    text, number = _read_subtask(subtask, ids), _read_worker(keys["worker"], roster, ids)
    access = _read_access(keys["access"], roster, ids)
    wrong = malformed_reference(text)
    for each in references_in(text):
        if isinstance(each.root, int) and ids.find(each.root) not in access["access"]:
            wrong = wrong or str(each.root)
    if wrong:
        told = bad_reference(f"the subtask of step {ids.name}", wrong)
        raise ids.fault("bad_reference", subtask.start, told)
    return Step(number, ids.renumbered(text, subtask.start), **access, **facts)


def _read_block(keys: Mapping[str, Node], facts: Mapping[str, Any], roster: Roster, ids: StepIds) -> Block:
    """Read a step with steps of its own; `facts` has its optional fields."""
    access = _read_access(keys["access"], roster, ids) if "access" in keys else {}
    if "plan" in keys:
        return _read_saved(keys, {**access, **facts}, roster, ids)
    rows, inner = keys["steps"], StepIds(ids)
    if not isinstance(rows.value, list):
        ids.fail("bad_block", rows.start, "has another value than a list for its steps: write a list")
    steps = tuple(read_row(row, roster, inner) for row in rows.value)
    until = _condition("until", keys, ids)
    if until is not None:
        ref = renumbered(until.ref, inner.any_position, lambda number: ids.position(number, rows.start))
        until = replace(until, ref=ref)
    most: Any = keys["most"].value if "most" in keys else None
    return Block(steps=steps, until=until, most=most, **access, **facts)


def _read_saved(keys: Mapping[str, Node], facts: Mapping[str, Any], roster: Roster, ids: StepIds) -> Block:
    """Read a step that is a saved plan, which is written out later."""
    name, start = keys["plan"].value, keys["plan"].start
    if both := [key for key in ("steps", *_OF_LOOP) if key in keys]:
        ids.fail("bad_block", start, f"names a saved plan and has {both[0]}: write one of them")
    if not isinstance(name, str) or not name.strip():
        ids.fail("bad_shape", start, "has another plan than a name: write the name of a saved plan")
    args = _data("args", keys["args"], ids) if "args" in keys else {}
    if not isinstance(args, dict):
        ids.fail("bad_args", keys["args"].start, 'has other args than an object: write {"name": value}')
    args = json.loads(ids.renumbered(json.dumps(args), start))
    return Block(steps=(), plan=name.strip(), args=args, line=roster.line_at(start), **facts)


def _keys_of(node: Node, *, is_block: bool, roster: Roster, ids: StepIds) -> dict[str, Node]:
    """Return the values of the known keys of a step; other keys are errors, or are noted and ignored."""
    assert isinstance(node.value, dict)
    known, others = (_OF_BLOCK, _OF_CALL) if is_block else (_OF_CALL, _OF_BLOCK)
    found: dict[str, Node] = {}
    for key, value in node.value.items():
        name: str = FIELDS.get(field_key(key), field_key(key))
        if name in found:
            ids.fail("duplicate_field", value.start, f"has two keys for {name}: write one")
        if name in _OF_BOTH or name in known:
            found[name] = value
        elif name in others:
            with_steps = "a step with steps has no" if is_block else "only a step with steps has"
            ids.fail("bad_block", value.start, f"has the key {key!r:.60}: {with_steps} {name}")
        elif name not in ID_KEYS:
            _check_key(key, name, value, roster, ids)
    return found


def _check_key(key: str, name: str, value: Node, roster: Roster, ids: StepIds) -> None:
    """Raise `PlanInvalid` for an unknown key that may be meant as a known one; note another key."""
    every, told = (*FIELD_ORDER, *_KEYS), f"has the unknown key {key!r:.60}"
    near = _MEANT.get(name) or next(iter(get_close_matches(name, every, n=1, cutoff=_NEAR)), "")
    if near and (name in _MEANT or abs(len(near) - len(name)) <= 2):
        ids.fail("unknown_key", value.start, f"{told}: did you mean {near!r}?")
    if roster.is_strict:
        ids.fail("unknown_key", value.start, f"{told}: the keys are {', '.join(every)}")
    roster.notes.append(f"step {ids.name} {told}, which was ignored")


def _optional(keys: Mapping[str, Node], ids: StepIds) -> dict[str, Any]:
    """Return the fields of calls and blocks for their optional keys."""
    facts: dict[str, Any] = {key: _data(key, keys[key], ids) for key in ("returns", "each") if key in keys}
    if isinstance(facts.get("each"), str):
        facts["each"] = ids.renumbered(facts["each"], keys["each"].start)
    if "enough" in keys:
        facts["enough"] = _enough(keys["enough"])
    if "as" in keys:
        facts["item_name"] = keys["as"].value
    if "tools" in keys:
        facts["tools"] = _names("tools", keys["tools"], ids)
    if (when := _condition("when", keys, ids)) is not None:
        facts["when"] = replace(when, ref=ids.renumbered(when.ref, keys["when"].start))
    if "else" in keys:
        number, start = step_number(keys["else"]), keys["else"].start
        if number is None:
            ids.fail("bad_condition", start, "has an else that names no step")
        if (found := ids.find(number)) is None:
            ids.fail("bad_condition", start, f"has else {number}, which is not an earlier step")
        facts["otherwise"] = found
    return facts


def _condition(key: str, keys: Mapping[str, Node], ids: StepIds) -> Condition | None:
    """Read the condition under a key, with the numbers of the text; `None` without one."""
    if key not in keys:
        return None
    try:
        return condition_from_json(_data(key, keys[key], ids))
    except PlanInvalid as error:
        if error.position is not None:
            raise
        ids.fail(error.code, keys[key].start, f"has a bad {key}: {error}")


def _data(key: str, node: Node, ids: StepIds) -> Any:
    try:
        return value_of(node)
    except ValueError:
        ids.fail("bad_shape", node.start, f"has a bad {key}: write JSON, with texts in quotes")


def _names(key: str, node: Node, ids: StepIds) -> tuple[str, ...] | None:
    """Return a list of names; `None` for all."""
    data = _data(key, node, ids)
    if data is None or data == "all":
        return None
    if not isinstance(data, list) or not all(isinstance(each, str) for each in data):
        ids.fail("bad_shape", node.start, f"has other {key} than a list of names: write the names, or []")
    return tuple(data)


def _enough(node: Node) -> Any:
    """Return the number that must be `ok`; `None` for all."""
    if isinstance(node.value, str) and node.value.strip().lower() in ("all", "none", "null"):
        return None
    number = step_number(node)
    return number if number is not None else node.value if isinstance(node.value, str) else "…"


def _lists(node: Node) -> dict[Field, Node]:
    """Return the three lists of a plan's object; other keys are ignored."""
    assert isinstance(node.value, dict)
    found: dict[Field, Node] = {}
    for key, value in node.value.items():
        field = FIELDS.get(field_key(key))
        if field in found:
            message = f"the plan has two keys for {field}: write one"
            raise PlanInvalid("duplicate_field", message, position=value.start)
        if field is not None:
            found[field] = value
    for field in FIELD_ORDER:
        if field not in found:
            told = f"the plan lacks the list for {field}: write all three, one entry per step in each"
            raise PlanInvalid("missing_field", told, position=node.start)
    return found


def check_length(steps: int, roster: Roster, position: int) -> None:
    """Raise `PlanInvalid` if a plan has too many steps."""
    if steps > roster.max_steps:
        allowed = f"the maximum is {roster.max_steps} (Limits.plan_steps or Policy.steps)"
        message = f"the plan has {steps} or more steps; {allowed}: merge steps"
        raise PlanInvalid("too_many_steps", message, position=position)


def _read_subtask(node: Node, ids: StepIds) -> str:
    code: PlanInvalidCode
    if not isinstance(node.value, str) or isinstance(node.value, Word):
        code, fault = "bad_subtask", "not text: write the worker's task in quotes"
    elif not (text := storable(node.value)).strip():
        code, fault = "empty_subtask", "empty: write the worker's task"
    elif len(text) > MAX_SUBTASK_CHARS:
        code = "subtask_too_long"
        fault = f"{len(text):,} characters long: write at most {MAX_SUBTASK_CHARS:,}"
    else:
        return text
    raise ids.fault(code, node.start, f"the subtask of step {ids.name} is {fault}")


def _read_worker(node: Node, roster: Roster, ids: StepIds) -> int:
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
        told = f"is a list or an object: write one worker, {_choices(roster)}"
        raise ids.fault("bad_worker", node.start, f"the worker of step {ids.name} {told}")
    told = f"step {ids.name} names worker {value!r:.60}, {fault}: write {_choices(roster)}"
    raise ids.fault("unknown_worker", node.start, told)


def _choices(roster: Roster) -> str:
    """Return the valid workers in words: numbers, and names if they are short."""
    numbers = f"a number from 0 to {roster.size - 1}" if roster.size > 1 else "0"
    names = ", ".join(roster.names)
    return f"{numbers}, or a name ({names})" if 0 < len(names) <= 200 else numbers


def _read_access(node: Node, roster: Roster, ids: StepIds) -> dict[str, Any]:
    """Return the fields of an access list: the steps, the previous round and the outer plan."""
    entries = node.value if isinstance(node.value, list) else [node]
    seen, found, is_top = set[int](), set[str](), ids.outer is None
    may_be_outer = roster.is_inner or not is_top
    for entry in entries:
        number = step_number(entry)
        word = entry.value.strip().lower() if isinstance(entry.value, str) else ""
        if number is not None:
            seen.add(ids.position(number, entry.start))
        elif word == "all":
            seen.update(range(ids.own))
        elif word == PREVIOUS and is_top and not roster.previous:
            raise ids.fault("no_previous", entry.start, no_previous(ids.own))
        elif word == PREVIOUS or (word == OUTER and may_be_outer):
            found.add(word)
        elif (named := ids.named(word)) is not None:
            seen.add(named)
        else:
            words = ["[]", '"all"', *['"previous"'] * (roster.previous or not is_top)]
            words += ['"outer"'] * may_be_outer
            told = f"lists {entry.value!r:.60}: write {', '.join(words)} or numbers of earlier steps"
            ids.fail("bad_access", entry.start, told)
    return {"access": tuple(sorted(seen)), "previous": PREVIOUS in found, "outer": OUTER in found}
