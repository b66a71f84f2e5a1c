r"""References in subtasks to outputs, items and named texts; conditions on outputs.

`{{n}}` stands for the output of step n, `{{n.field}}` for a part of it, and `{{name}}` for a named text of
the run. `{{item}}` and `{{index}}` stand for the item of a map and its number, `{{previous}}` for the turn
before, `{{outer.n}}` for a step of the plan around a block.

A backslash before two braces, `\{{`, makes them literal. Double braces around other text are literal. Double
braces around a name are literal too, if nothing has this name.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple, TypeGuard

from podium.errors import PlanInvalid
from podium.types.messages import storable

RESERVED = frozenset(("item", "index", "outer", "previous"))
"""Names that no named text and no item may have."""

_PATH = r"(?:\.[^\s.{}]{1,64}){0,8}"
_FOUND = re.compile(
    r"(?P<escape>\\\{\{)"
    rf"|\{{\{{\s{{0,9}}(?P<step>[+-]?[0-9]{{1,18}})(?P<path>{_PATH})\s{{0,9}}\}}\}}"
    # `{{1`, `{{1, 2}}`, `{{step 1}}`, `{{output_of_step_1}}`: meant as references
    r"|(?P<malformed>\{\{\s{0,9}(?:(?:the|of|steps?|outputs?|results?)[\s_#:.\[($-]{0,3}){0,5}[#+-]?[0-9]"
    r"[^{}]{0,20}\}{0,2})"
    rf"|\{{\{{\s{{0,9}}(?P<name>[a-z_][a-z0-9_]{{0,63}})(?P<part>{_PATH})\s{{0,9}}\}}\}}",
    re.IGNORECASE,
)

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*:)?', re.DOTALL)
"""A string in JSON text, with the colon after a key."""


class _Absent:
    """The type of `ABSENT`."""


ABSENT: Final = _Absent()
"""In place of a value that does not exist: an optional part, or `previous` in the first turn of a loop."""


class BadValue(PlanInvalid):
    """A reference leads to nothing, or its value has the wrong type."""

    def __init__(self, message: str) -> None:
        super().__init__("bad_value", message)


class Reference(NamedTuple):
    """What double braces stand for."""

    root: int | str
    """The number of a step, or a name."""
    path: tuple[str, ...] = ()
    """The keys and positions that lead from the whole value to a part of it."""

    def __str__(self) -> str:
        return f"{{{{{'.'.join((str(self.root), *self.path))}}}}}"

    @property
    def outer(self) -> int | None:
        """The number of a step of the plan around the block, as in `{{outer.0}}`; `None` for others."""
        is_outer = self.root == "outer" and self.path and self.path[0].isdecimal()
        return int(self.path[0]) if is_outer else None


def references_in(subtask: str, names: Collection[str] = ()) -> list[Reference]:
    """Return the references in a subtask to steps, reserved names and `names`, in order."""
    return [part for part in parts_of(subtask, names) if not isinstance(part, str)]


def parts_of(subtask: str, names: Collection[str] = ()) -> Iterator[str | Reference]:
    """Yield the parts of a subtask: literal texts, and references to steps, reserved names and `names`."""
    end = 0
    for found in _matches(subtask):
        part = _reference(found)
        if part is None and not found["escape"]:
            continue
        if part is not None and isinstance(part.root, str) and part.root not in RESERVED.union(names):
            continue
        if found.start() > end:
            yield subtask[end : found.start()]
        yield "{{" if part is None else part
        end = found.end()
    if end < len(subtask):
        yield subtask[end:]


def _matches(subtask: str) -> Iterable[re.Match[str]]:
    return _FOUND.finditer(subtask) if "{{" in subtask else ()


def _reference(found: re.Match[str]) -> Reference | None:
    """Return the reference of a match of `_FOUND`; `None` if it is none."""
    step, name = found["step"], found["name"]
    path = tuple((found["path"] or found["part"] or "").split(".")[1:])
    if step is not None:
        return Reference(int(step), path)
    if name is not None:
        return Reference(name.lower() if name.lower() in RESERVED else name, path)
    return None


def malformed_reference(subtask: str) -> str:
    """Return the first malformed reference; empty if there is none."""
    return next((found["malformed"] for found in _matches(subtask) if found["malformed"] is not None), "")


def named_in(subtask: str) -> tuple[Reference, ...]:
    """Return the references to names in a subtask, also to names that nothing has, each once, in order."""
    found = map(_reference, _matches(subtask))
    return tuple(dict.fromkeys(one for one in found if one is not None and isinstance(one.root, str)))


def names_in(subtask: str) -> tuple[str, ...]:
    """Return the names in double braces in a subtask that may be named texts, each once, in order."""
    return tuple(one.root for one in named_in(subtask) if not one.path and one.root not in RESERVED)  # type: ignore[misc]


def reference_of(text: str) -> Reference | None:
    """Return the reference if the whole text is one; else `None`."""
    found = _FOUND.fullmatch(text.strip())
    return None if found is None else _reference(found)


def renumbered(
    subtask: str, new: Callable[[int], int] | None, outer: Callable[[int], int] | None = None
) -> str:
    """Return the subtask with `new` applied to numbers of references, and `outer` to those of `outer.n`."""
    if "{{" not in subtask:
        return subtask

    def one(found: re.Match[str]) -> str:
        reference = _reference(found)
        if reference is not None and new is not None and isinstance(reference.root, int):
            return str(Reference(new(reference.root), reference.path))
        if reference is not None and outer is not None and reference.outer is not None:
            return str(Reference("outer", (str(outer(reference.outer)), *reference.path[1:])))
        return found[0]

    return _FOUND.sub(one, subtask)


def literal(text: str) -> str:
    """Escape the double braces in `text`, so that a subtask contains no references."""
    if "{{" not in text:
        return text

    def one(found: re.Match[str]) -> str:
        named = _reference(found)
        is_text = found["name"] and named is not None and not named.path and named.root not in RESERVED
        return found[0] if is_text else "\\" + found[0]

    return _FOUND.sub(one, text)


def bad_reference(step: str, reference: str) -> str:
    """Return the error message for an invalid reference."""
    if reference.lstrip("+-").isdecimal():
        fault = f"{step} refers to {{{{{reference}}}}}, which is not on its access list"
        return f"{fault}: add the step to the list, or write \\{{{{ for literal braces"
    fault = f"{step} contains {reference!r}, which is not a valid reference"
    return f"{fault}: write {{{{n}}}} for the output of step n, or \\{{{{ for literal braces"


def compact(value: Any) -> str:
    """Return a value as compact JSON; raise `TypeError` or `ValueError` for another value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def read_json(text: str) -> Any:
    """Return the value of JSON text; raise `ValueError` if it is none. Strings may have raw line breaks."""
    try:
        return json.loads(text, strict=False, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(f"{text} is not a finite number")
    return number


def written(value: Any) -> str:
    """Return a value as text: a string as it is, `ABSENT` as nothing, other values as compact JSON."""
    if value is ABSENT:
        return ""
    return value if isinstance(value, str) else compact(value)


def shown(value: object) -> str:
    """Return any value as text for people, which is JSON if it can be."""
    return json.dumps(value, ensure_ascii=False, default=repr, skipkeys=True)


def with_values(data: Any, names: Collection[str], value_of: Callable[[Reference], Any]) -> Any:
    """Return JSON data in which the references in texts are replaced; a text that is one gets its type."""
    if isinstance(data, Mapping):
        return {key: with_values(each, names, value_of) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return [with_values(each, names, value_of) for each in data]
    if not isinstance(data, str):
        return data
    parts = list(parts_of(data, names))
    if len(parts) == 1 and isinstance(parts[0], Reference):
        return value_of(parts[0])
    return "".join(part if isinstance(part, str) else written(value_of(part)) for part in parts)


def value_at(value: Any, path: Sequence[str], reference: object) -> Any:
    """Return the part of a value at a path; raise `BadValue`, which names the reference, if there is none."""
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            has = f"a list of {len(value)}" if isinstance(value, list) else f"{written(value)!r:.60}"
            raise BadValue(f"{reference} leads to nothing: there is no {key!r} in {has}")
    return value


def filled(subtask: str, values: Mapping[Reference, Any], *, only_json: bool = False) -> str:
    """Return a subtask with values in place of references; a value's own double braces are literal.

    In a subtask that is a JSON object, values are escaped, and a string that is exactly one reference becomes
    the value with its type. With `only_json`, also in an object within other text, where references stay.
    """
    if "{{" not in subtask or not values:
        return subtask
    places = _places(subtask) if only_json or is_object(subtask) else {}
    text, done, kept = "", 0, set[int]()
    for found in _FOUND.finditer(subtask):
        start, end, reference = found.start(), found.end(), _reference(found)
        if reference is None or reference not in values or (only_json and start not in places):
            kept.add(len(text) + start - done)
            told = found[0]
        else:
            value = values[reference]
            start, end, place = places.get(start, (start, end, "text"))
            told = written(value) if place != "value" else compact(None if value is ABSENT else value)
            told = compact(told)[1:-1] if place == "string" else told
        text, done = text + subtask[done:start] + told, end
    text += subtask[done:]
    return storable(_FOUND.sub(lambda found: found[0] if found.start() in kept else "\\" + found[0], text))


def _places(subtask: str) -> dict[int, tuple[int, int, str]]:
    """Return where values go into JSON, by the start of the reference: in a "string", or as a "value".

    A reference that is a whole string, and no key, is a value, and the quotes belong to it.
    """
    begin, stop = json_in(subtask)
    masked = _masked(subtask)
    places = {found.start(): (*found.span(), "value") for found in _FOUND.finditer(subtask, begin, stop)}
    for string in _STRING.finditer(masked, begin, stop):
        for found in _FOUND.finditer(subtask, *string.span()):
            start, end = found.span()
            is_whole = (start - 1, end + 1) == string.span()
            places[start] = (*string.span(), "value") if is_whole else (start, end, "string")
    return places


def _masked(subtask: str) -> str:
    """Return a subtask with a number for each reference: it is JSON inside and outside of strings."""
    return _FOUND.sub(lambda found: "1" * len(found[0]), subtask)


def json_in(subtask: str) -> tuple[int, int]:
    """Return where a JSON object is in a subtask, with any values filled in; (0, 0) if there is none."""
    text = _masked(subtask)
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        read_json(text[start:end])
    except ValueError:
        return 0, 0
    return start, end


def is_object(subtask: str) -> bool:
    """Return whether the whole subtask, with any values filled in, is a JSON object, bare or fenced."""
    begin, end = json_in(subtask)
    around = subtask[:begin].strip(), subtask[end:].strip()
    return begin < end and around in (("", ""), ("```", "```"), ("```json", "```"))


OPERATORS = ("is", "in", "not", "less", "more", "exists")
"""The tests of a condition; all of them must hold."""
_FORM = 'as in {"ref": "{{0.verdict}}", "is": "bad"}'


def called(name: str, args: Mapping[str, Any] | None) -> str:
    """Return a saved plan with its arguments, as in `review(repo=".")`."""
    return f"{name}({', '.join(f'{key}={shown(value)}' for key, value in (args or {}).items())})"


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, and neither `"1"` nor `true`."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a typed output. It holds if all its tests hold.

    Raises:
        PlanInvalid: there is no test, a test is unknown, its operand has the wrong type, or no value passes
            all tests.
    """

    ref: str
    """The reference to the value that is tested, as in `{{0.verdict}}`."""
    tests: dict[str, Any]
    """The operand of each operator: `is` and `not` have a value, `in` a list, `less` and `more` a number,
    `exists` true or false."""

    def __post_init__(self) -> None:
        if reference_of(self.ref) is None:
            told = f"ref is {shown(self.ref):.60}: write one reference, {_FORM}"
            raise PlanInvalid("bad_condition", told)
        if not self.tests:
            told = f"the condition on {self.ref} has no test: write one, {_FORM}"
            raise PlanInvalid("bad_condition", told)
        for operator, operand in self.tests.items():
            if wanted := _wrong_operand(operator, operand):
                raise PlanInvalid("bad_condition", f"{operator} is {shown(operand):.60}: write {wanted}")
        if self._never_holds():
            raise PlanInvalid("bad_condition", f"no value passes all tests of {self}: correct them")

    def _never_holds(self) -> bool:
        tests = self.tests
        if tests.get("exists") is False:
            return len(tests) > 1  # the others need a value
        return self.options == [] or ({"less", "more"} <= tests.keys() and tests["less"] <= tests["more"])

    @property
    def options(self) -> list[Any] | None:
        """The only values for which the condition holds; `None` if there may be others."""
        known = [self.tests["is"]] if "is" in self.tests else self.tests.get("in")
        return None if known is None else [value for value in known if self._may_be(value)]

    def _may_be(self, value: Any) -> bool:
        try:
            return self.holds(value)
        except BadValue:
            return False

    @property
    def reference(self) -> Reference:
        """The value that is tested."""
        found = reference_of(self.ref)
        assert found is not None
        return found

    def holds(self, value: Any) -> bool:
        """Return whether the condition holds for a value, or for `ABSENT` in place of one.

        Raises:
            BadValue: there is no value, or it has the wrong type for a test.
        """
        tests = dict(self.tests)
        exists = value is not ABSENT
        if tests.pop("exists", exists) is not exists:
            return False
        if tests and not exists:
            raise BadValue(f"{self.ref} leads to nothing")
        return all(self._passes(name, operand, value) for name, operand in tests.items())

    def _passes(self, name: str, operand: Any, value: Any) -> bool:
        if name in ("less", "more"):
            if not _is_quantity(value):
                raise BadValue(f"{self.ref} is {shown(value):.60}, and {name} compares numbers")
            return bool(value < operand if name == "less" else value > operand)
        if name == "in":
            return any(same(value, one) for one in operand)
        return same(value, operand) is (name == "is")

    def __str__(self) -> str:
        return f"{self.ref} {', '.join(f'{name} {shown(operand)}' for name, operand in self.tests.items())}"

    def to_json(self) -> dict[str, Any]:
        """Return the condition as in plan text."""
        return {"ref": self.ref, **self.tests}


def _wrong_operand(operator: str, operand: object) -> str:
    """Return what to write in place of an operand; empty if it is valid."""
    if operator not in OPERATORS:
        return f"one of the tests {', '.join(OPERATORS)}"
    if operator == "in" and not isinstance(operand, list):
        return "a list of values"
    if operator in ("less", "more") and not _is_quantity(operand):
        return "a number"
    return "true or false" if operator == "exists" and not isinstance(operand, bool) else ""


def _is_quantity(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def condition_from_json(value: object) -> Condition | None:
    """Read a condition as in plan text; `None` for `None`; raise `PlanInvalid` for other data."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("ref"), str):
        raise PlanInvalid("bad_condition", f"a condition is {shown(value):.60}: write an object, {_FORM}")
    return Condition(value["ref"], {str(key): each for key, each in value.items() if key != "ref"})
