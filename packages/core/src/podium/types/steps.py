"""The steps of a plan: calls of workers, and blocks of steps.

A step can run once for each item of a list (`each`) and under a condition (`when`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from difflib import get_close_matches
from itertools import takewhile
from re import compile as pattern, findall, split, sub
from typing import Any, TypeGuard

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.types.references import (
    RESERVED,
    Condition,
    Reference,
    bad_reference,
    condition_from_json,
    malformed_reference,
    reference_of,
    references_in,
    renumbered,
    shown,
)
from podium.types.schemas import check_schema

PREVIOUS = "previous"
"""The entry of an access list that means all steps of the previous round, or in a loop of the turn before."""
OUTER = "outer"
"""The entry of an access list that means all that the access list of the block around the step shows."""
_NAME = pattern(r"[a-z_][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Step:
    """One subtask, its worker, and the earlier steps that the worker sees."""

    worker: int
    """Number of the worker in its pool, from 0."""
    subtask: str
    """The task of the worker, in natural language. `{{n}}` stands for the output of step n, which must
    be on the access list; `\\{{` is a literal `{{`."""
    access: tuple[int, ...] = ()
    """Indices of the earlier steps whose subtask and output the worker sees; sorted, without duplicates."""
    enough: int | None = None
    """Number of steps of the access list that must be `ok` before this step starts; the worker sees only
    these. With `each`, number of items that must be `ok`; the others are then stopped. `None` means all. (The
    length of the list is stored as `None`.)"""
    previous: bool = False
    """Whether the worker also sees the subtasks and outputs of all steps of the previous round; in a loop, of
    the turn before."""
    label: int | None = field(default=None, compare=False)
    """The number that the planner gave the step, which workers see; with `None`, they see the index. Events,
    outcomes, approvals and edits always use the index."""
    _: KW_ONLY
    outer: bool = False
    """Whether the worker also sees all that the access list of the block around the step shows."""
    returns: dict[str, Any] | None = None
    """A JSON schema, or its short form, of one output; `None` for any text."""
    each: str | int | tuple[Any, ...] | None = None
    """A reference to a list, a literal list, or a number: the step runs once for each item."""
    item_name: str = ""
    """A name for the item, besides `item`; `as` in plan text."""
    when: Condition | None = None
    """The condition under which the step runs, or else is skipped; `None` for none."""
    otherwise: int | None = None
    """The earlier step whose output stands for this one if it is skipped; `else` in plan text."""
    tools: tuple[str, ...] | None = None
    """The names of the caller's tools that the worker may call; `None` means all."""

    def __post_init__(self) -> None:
        if self.tools is not None:
            object.__setattr__(self, "tools", tuple(self.tools))
        if not all(map(is_number, (self.worker, *self.access))):
            message = f"worker {self.worker!r}, access {self.access!r}: write integers, counted from 0"
            raise PlanInvalid("bad_access" if is_number(self.worker) else "bad_worker", message)
        if self.worker < 0:
            raise PlanInvalid("bad_worker", f"worker {self.worker} is negative: workers count from 0")
        if not self.subtask.strip():
            raise PlanInvalid("empty_subtask", "the subtask of a step is empty: write the worker's task")
        if self.returns is not None:
            object.__setattr__(self, "returns", check_schema(self.returns))
        _check_common(self)
        self._check_references()

    def _check_references(self) -> None:
        if wrong := malformed_reference(self.subtask):
            raise PlanInvalid("bad_reference", bad_reference("a step", wrong))
        references = self.references
        for number in references:
            if number not in self.access:
                raise PlanInvalid("bad_reference", bad_reference("a step", str(number)))
        if references and self.enough is not None and self.each is None:
            told = "a step whose subtask refers to outputs waits for all steps on its access list"
            raise PlanInvalid("bad_enough", f"{told}: leave out enough")

    @property
    def references(self) -> tuple[int, ...]:
        """The indices of the steps that the subtask names as `{{n}}`, sorted; all are on the access list."""
        return tuple(sorted(_numbers(references_in(self.subtask))))

    @property
    def access_list(self) -> list[int | str]:
        """The access list as in plan text: `"previous"` if the step sees the previous round, then indices."""
        return access_list(self)

    @property
    def least(self) -> int:
        """How many steps of the access list must be `ok` before this step starts."""
        return len(self.access) if self.enough is None or self.each is not None else self.enough

    @property
    def has_values(self) -> bool:
        """Whether the subtask refers to parts of outputs, or to names such as `item`."""
        return any(each.path or each.root in RESERVED for each in references_in(self.subtask))

    @property
    def is_plain(self) -> bool:
        """Whether it has no key of workflows."""
        return self.returns is None and is_unconditional(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A plan within a step, with its own numbers. Its output is the output of its last step.

    With `until`, it is repeated in turns: the last turn gives its output. `Step` describes the others.
    """

    steps: "tuple[Step | Block, ...]"
    """The steps of the block, whose access lists have the numbers of the block."""
    until: Condition | None = None
    """The condition, on steps of the block, that ends its turns; `None` for one turn."""
    most: int | None = None
    """Maximum turns; required with `until`."""
    plan: str = ""
    """The name of the saved plan whose steps these are; without steps, the plan is not written out yet."""
    parameters: Mapping[str, Any] | None = None
    """The JSON schemas of the parameters of the saved plan, to which its steps refer by name."""
    args: Mapping[str, Any] | None = None
    """The values of the parameters; a text in them may have references of the plan around the block."""
    access: tuple[int, ...] = ()
    """Indices of the earlier steps that the steps of the block may see with `"outer"`, or refer to."""
    enough: int | None = None
    previous: bool = False
    label: int | None = field(default=None, compare=False)
    outer: bool = False
    each: str | int | tuple[Any, ...] | None = None
    item_name: str = ""
    when: Condition | None = None
    otherwise: int | None = None
    line: int = field(default=0, compare=False, repr=False)
    """The line of a saved plan's name in the text of a planner, from 1; 0 if it is not known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        if not self.steps and not self.plan:
            raise PlanInvalid("bad_block", "a block has no steps: write at least one step")
        if self.args is not None and not (self.plan and isinstance(self.args, Mapping)):
            raise PlanInvalid("bad_args", "args are not those of a saved plan: write an object, and plan")
        if (self.until is None) != (self.most is None):
            lacks = "most, the maximum number of turns" if self.most is None else "until, a condition"
            raise PlanInvalid("bad_block", f"a loop lacks {lacks}: write until and most together")
        if self.most is not None and not (is_number(self.most) and self.most >= 1):
            raise PlanInvalid("bad_block", f"most is {self.most!r:.60}: write a number of turns from 1")
        if self.enough is not None and self.each is None:
            raise PlanInvalid("bad_enough", "enough on a block counts items: write each, or leave out enough")
        _check_common(self)

    @property
    def access_list(self) -> list[int | str]:
        """The access list as in plan text."""
        return access_list(self)

    @property
    def least(self) -> int:
        """How many steps of the access list must be `ok` before this block starts."""
        return len(self.access)

    @property
    def is_plain(self) -> bool:
        """Whether it has no key of workflows: never."""
        return False


AnyStep = Step | Block


def access_list(step: AnyStep) -> list[int | str]:
    """Return the access list as in plan text: words, then indices."""
    return [*([PREVIOUS] * step.previous), *([OUTER] * step.outer), *step.access]


def is_unconditional(step: AnyStep) -> bool:
    """Return whether a step runs once, whatever other outputs are."""
    return step.each is None and step.when is None


def worker_of(step: AnyStep, workers: Sequence[str] | None) -> str:
    """Return the name of a step's worker, or without names its number; "block" for a block."""
    if isinstance(step, Block):
        return f"plan {step.plan}" if step.plan else "block"
    return str(step.worker) if workers is None else workers[step.worker]


def task_of(step: AnyStep) -> str:
    """Return what a step does, in words: its subtask, and when and how often it runs."""
    told = f"{len(step.steps)} steps" if isinstance(step, Block) else step.subtask
    rules = [] if step.is_plain else rules_of(step)
    return f"{told} ({', '.join(rules)})" if rules else told


def rules_of(step: AnyStep) -> list[str]:
    """Return when and how often a step runs, in words; empty for a step that runs once."""
    told = []
    if step.when is not None:
        told.append(f"if {step.when}")
    if step.otherwise is not None:
        told.append(f"else the output of step {step.otherwise}")
    if step.each is not None:
        over = step.each if isinstance(step.each, str) else count_of(step.each)
        told.append(f"for each of {over}")
    if step.enough is not None:
        most = len(step.access)
        told.append(
            f"until {step.enough} are ok" if step.each is not None else f"after {step.enough} of {most}"
        )
    if isinstance(step, Block) and step.until is not None:
        told.append(f"until {step.until}, at most {step.most} turns")
    return told


def count_of(each: int | tuple[Any, ...] | None) -> int:
    """Return the number of items of a literal list, or of a number."""
    return each if isinstance(each, int) else len(each or ())


def each_of(step: AnyStep) -> Reference | None:
    """Return the reference to the list of a map; `None` for another list, and without `each`."""
    return reference_of(step.each) if isinstance(step.each, str) else None


def waits_of(step: AnyStep) -> list[Reference]:
    """Return the references of `each` and `when`, for whose steps a step waits, besides its access list."""
    found = each_of(step), None if step.when is None else step.when.reference
    args = references_in(shown(step.args), ()) if isinstance(step, Block) and step.args else []
    return [*[reference for reference in found if reference is not None], *args]


def inside_of(step: AnyStep) -> list[Reference]:
    """Return the references of a subtask; of a block, those of `until`, with the numbers of its steps."""
    if isinstance(step, Step):
        return references_in(step.subtask)
    return [] if step.until is None else [step.until.reference]


def inner_of(step: AnyStep) -> AnyStep:
    """Return what a map does with each item."""
    return replace(step, each=None, item_name="", when=None, otherwise=None, enough=None)


def uses_index(step: AnyStep) -> bool:
    """Return whether `index` of the map around a step is in the step, or in steps inside of it."""
    if any(each.root == "index" for each in waits_of(step)):
        return True
    if step.each is not None:  # it has its own
        return False
    inner = step.steps if isinstance(step, Block) else ()
    return any(each.root == "index" for each in inside_of(step)) or any(map(uses_index, inner))


def depends_on(step: AnyStep) -> set[int]:
    """Return the indices of the steps of its plan whose output or status a step needs."""
    found = {*step.access, *_numbers(waits_of(step))}
    found |= set() if step.otherwise is None else {step.otherwise}
    if isinstance(step, Block):
        inside = inside_of(step)
        for inner in step.steps:
            inside += waits_of(inner) + (inside_of(inner) if isinstance(inner, Step) else [])
        found |= {each.outer for each in inside if each.outer is not None}
    return found


def _numbers(references: Iterable[Reference]) -> set[int]:
    return {each.root for each in references if isinstance(each.root, int)}


def branches(steps: Sequence[AnyStep]) -> list[int]:
    """Return the unbroken row of steps with conditions at the end of a plan."""
    row = list(takewhile(lambda index: steps[index].when is not None, range(len(steps) - 1, -1, -1)))
    return row[::-1]


def answers_of(steps: Sequence[AnyStep]) -> list[int]:
    """Return the steps that may give the output of a plan: the row of branches at its end, or its last."""
    return branches(steps) or [*range(len(steps))][-1:]


def reaching(steps: Sequence[AnyStep], ends: Iterable[int]) -> frozenset[int]:
    """Return some steps of a plan and all steps that they depend on."""
    found = set(ends)
    for index in range(max(found, default=-1), -1, -1):  # a step depends only on earlier steps
        if index in found:
            found |= depends_on(steps[index])
    return frozenset(found)


def calls_in(steps: Sequence[AnyStep]) -> Iterator[Step]:
    """Yield the steps that call workers, also inside of blocks, in order."""
    for step in steps:
        if isinstance(step, Block):
            yield from calls_in(step.steps)
        else:
            yield step


def plan_step(path: str) -> int:
    """Return the index of the step of the plan inside of which an execution is."""
    return int(split(r"[.[(]", path, maxsplit=1)[0])


def positions(path: str) -> list[int]:
    """Return the numbers of steps, items and turns in a path, by which executions are ordered."""
    return list(map(int, findall(r"\d+", path)))


def static_place(path: str) -> str:
    """Return the name of a step inside of maps and blocks, without the items and turns of an execution."""
    return sub(r"\[[^]]*\]|\([^)]*\)", "", path)


def step_at(steps: Sequence[AnyStep], name: str) -> AnyStep:
    """Return the step of an execution, also inside of blocks; see `Outcome.name`."""
    first, *inner = map(int, static_place(name).split("."))
    step = steps[first]
    for number in inner:
        assert isinstance(step, Block)
        step = step.steps[number]
    return step


def is_number(value: object) -> TypeGuard[int]:
    """Return whether `value` is an `int` and not a `bool`."""
    return type(value) is int


def _check_common(step: AnyStep) -> None:
    """Check and normalize the fields that calls and blocks share."""
    object.__setattr__(step, "access", tuple(sorted(set(step.access))))
    each: object = step.each
    if isinstance(each, list):
        object.__setattr__(step, "each", tuple(each))
        each = tuple(each)
    told = 'write a reference as in "{{0.files}}", a list, or a number'
    if isinstance(each, str) and reference_of(each) is None:
        raise PlanInvalid("bad_each", f"each is {each!r:.60}: {told}")
    if not (each is None or isinstance(each, str | tuple) or (is_number(each) and each >= 0)):
        raise PlanInvalid("bad_each", f"each is {each!r:.60}: {told}, 0 or more")
    if step.item_name and each is None:
        told = "as names the items of each, and the step has no each: write each, or leave out as"
        raise PlanInvalid("bad_each", told)
    if step.item_name and (step.item_name in RESERVED or not _NAME.fullmatch(step.item_name)):
        why = "name the items of each with at most 64 small letters, digits and _, not with a reserved name"
        raise PlanInvalid("bad_each", f"as is {step.item_name!r:.60}: {why} ({', '.join(sorted(RESERVED))})")
    if step.otherwise is not None and (step.when is None or not is_number(step.otherwise)):
        raise PlanInvalid("bad_condition", "else names the step that stands for this one: write when, too")
    if step.enough is not None:
        _check_enough(step, step.enough)


def _check_enough(step: AnyStep, least: int) -> None:
    inputs, most = len(step.access), None if isinstance(step.each, str) else count_of(step.each)
    most = inputs if step.each is None else most
    if not is_number(least) or least < 1 or (most is not None and least > most):
        told = f": write a number from 1 to {inputs}, or leave it out to wait for all steps"
        if step.each is not None:
            told = ": write a number from 1" + ("" if most is None else f" to {most}, the number of items")
        elif not inputs:
            told = ", and the access list is empty: leave out enough"
        raise PlanInvalid("bad_enough", f"enough is {least!r:.60}{told}")
    if step.each is None and least == inputs:
        object.__setattr__(step, "enough", None)


def numbered(steps: Iterable[AnyStep], new: Callable[[int], int]) -> tuple[AnyStep, ...]:
    """Return steps with `new` applied to all numbers of steps of their plan."""
    return tuple(_numbered(step, new, None) for step in steps)


def _numbered(step: AnyStep, own: Callable[[int], int] | None, outer: Callable[[int], int] | None) -> AnyStep:
    """Return a step with new numbers in its own references, and in those to the plan around it (`outer`)."""

    def text(value: str) -> str:
        return renumbered(value, own, outer)

    def condition(value: Condition | None) -> Condition | None:
        return None if value is None else replace(value, ref=text(value.ref))

    facts: dict[str, Any] = {"when": condition(step.when)}
    if isinstance(step.each, str):
        facts["each"] = text(step.each)
    if own is not None:
        facts["access"] = tuple(map(own, step.access))
        facts["otherwise"] = None if step.otherwise is None else own(step.otherwise)
    if isinstance(step, Step):
        return replace(step, subtask=text(step.subtask), **facts)
    inner = tuple(_numbered(each, None, own) for each in step.steps)
    until = step.until and replace(step.until, ref=renumbered(step.until.ref, None, own))
    args = step.args and json.loads(text(json.dumps(step.args)))
    return replace(step, steps=inner, until=until, args=args, **facts)


def with_workers(steps: Iterable[AnyStep], new: Sequence[int]) -> tuple[AnyStep, ...]:
    """Return steps with worker `i` replaced by `new[i]`, also inside of blocks."""
    found: list[AnyStep] = []
    for step in steps:
        if isinstance(step, Block):
            found.append(replace(step, steps=with_workers(step.steps, new)))
        else:
            found.append(step if new[step.worker] == step.worker else replace(step, worker=new[step.worker]))
    return tuple(found)


_FIELDS = {"as": "item_name", "else": "otherwise"}
"""The keys of JSON that are other words than the names of fields."""
_SHARED = ("access", "enough", "label", "each", "as", "when", "else")
_OF_CALL = ("worker", "subtask", *_SHARED, "returns", "tools")
_OF_BLOCK = ("steps", *_SHARED, "until", "most", "plan", "parameters", "args")
_NONE = type(None)
_TYPES: Mapping[str, tuple[type[Any], ...]] = {
    "worker": (int,),
    "subtask": (str,),
    "steps": (list,),
    "access": (list,),
    "enough": (int, _NONE),
    "label": (int, _NONE),
    "each": (str, int, list, _NONE),
    "as": (str,),
    "else": (int, _NONE),
    "plan": (str,),
    "parameters": (dict, _NONE),
    "args": (dict, _NONE),
    "tools": (list, _NONE),
}
"""The types of the values of keys; the values of others are checked where they are used."""


def step_to_json(step: AnyStep, workers: Sequence[str] | None = None) -> dict[str, Any]:
    """Return a step as plain JSON data; `workers` are names that are written in place of numbers."""
    keys = _OF_BLOCK if isinstance(step, Block) else _OF_CALL
    facts = {key: getattr(step, _FIELDS.get(key, key)) for key in keys}
    facts |= {"access": step.access_list, "as": step.item_name or None}
    if isinstance(step, Block):
        facts["steps"] = [step_to_json(each, workers) for each in step.steps]
        facts["plan"] = step.plan or None
    elif workers is not None:
        facts["worker"] = workers[step.worker]
    for key, value in facts.items():
        if isinstance(value, Condition):
            facts[key] = value.to_json()
        elif isinstance(value, tuple):
            facts[key] = list(value)
    return {key: value for key, value in facts.items() if value is not None}


def step_from_json(row: object, index: int) -> AnyStep:
    """Read what `step_to_json` returned, with numbers of workers; raise `PlanInvalid` for other data."""
    code: PlanInvalidCode = "bad_shape"
    if isinstance(row, Mapping):
        is_block = "steps" in row or "plan" in row
        known = _OF_BLOCK if is_block else _OF_CALL
        if unknown := [str(key) for key in row if key not in known]:
            near = get_close_matches(unknown[0], known, n=1)
            rather = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(known)}"
            told = f"step {index} has the unknown key {unknown[0]!r:.60}: {rather}"
            raise PlanInvalid("unknown_key", told, step=index)
        if not is_block and not row.keys() >= {"worker", "subtask", "access"}:
            code = "missing_field"
        elif all(type(row[key]) in kinds for key, kinds in _TYPES.items() if key in row):
            access = row.get("access", [])
            seen = tuple(entry for entry in access if entry not in (PREVIOUS, OUTER))
            if all(map(is_number, seen)):
                words = {"previous": PREVIOUS in access, "outer": OUTER in access}
                return _made({**row, "access": seen}, words)
    message = f"step {index} must have an integer worker, a text subtask and an access list of integers"
    raise PlanInvalid(code, message, step=index)


def _made(row: Mapping[str, Any], words: Mapping[str, bool]) -> AnyStep:
    """Return the step of JSON data whose keys and types are right."""
    facts = {_FIELDS.get(key, key): value for key, value in row.items()} | {**words}
    for key in {"when", "until"} & facts.keys():
        facts[key] = condition_from_json(facts[key])
    if "worker" in facts:
        return Step(**facts)
    rows = facts.get("steps", ())
    facts["steps"] = tuple(step_from_json(inner, number) for number, inner in enumerate(rows))
    return Block(**facts)
