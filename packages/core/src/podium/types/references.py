r"""References in subtasks to outputs, items and named texts.

`{{n}}` stands for the output of step n, `{{n.field}}` for a part of it, and `{{name}}` for a named text of
the run. `{{item}}` and `{{index}}` stand for the item of a map and its number, `{{previous}}` for the turn
before, `{{outer.n}}` for a step of the plan around a block.

A backslash before two braces, `\{{`, makes them literal. Double braces around other text are literal. Double
braces around a name are literal too, if nothing has this name.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

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


class Reference(NamedTuple):
    """What double braces stand for."""

    root: int | str
    """The number of a step, or a name."""
    path: tuple[str, ...] = ()
    """The keys and positions that lead from the whole value to a part of it."""

    def __str__(self) -> str:
        return f"{{{{{'.'.join((str(self.root), *self.path))}}}}}"


def references_in(subtask: str) -> tuple[int, ...]:
    """Return the steps that a subtask refers to, sorted, each once."""
    roots = {part.root for part in parts_of(subtask) if not isinstance(part, str)}
    return tuple(sorted(root for root in roots if isinstance(root, int)))


def parts_of(subtask: str, names: Collection[str] = ()) -> Iterator[str | Reference]:
    """Yield the parts of a subtask: literal texts, and references to steps, reserved names and `names`."""
    end = 0
    for found in _FOUND.finditer(subtask) if "{{" in subtask else ():
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


def _reference(found: re.Match[str]) -> Reference | None:
    """Return the reference of a match of `_FOUND`; `None` if it is none."""
    if (step := found["step"]) is not None:
        return Reference(int(step), _path(found["path"]))
    if (name := found["name"]) is not None:
        return Reference(name.lower() if name.lower() in RESERVED else name, _path(found["part"]))
    return None


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")[1:])


def malformed_reference(subtask: str) -> str:
    """Return the first malformed reference; empty if there is none."""
    found = _FOUND.finditer(subtask) if "{{" in subtask else ()
    return next((one["malformed"] for one in found if one["malformed"] is not None), "")


def named_in(subtask: str) -> tuple[Reference, ...]:
    """Return the references to names in a subtask, also to names that nothing has, each once, in order."""
    found = map(_reference, _FOUND.finditer(subtask) if "{{" in subtask else ())
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
        if new is not None and found["step"]:
            return str(Reference(new(int(found["step"])), _path(found["path"])))
        if outer is not None and reference is not None and reference.root == "outer":
            first, *rest = reference.path or ("",)
            if first.isdecimal():
                return str(Reference("outer", (str(outer(int(first))), *rest)))
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


def filled(subtask: str, names: Collection[str], value_of: Callable[[Reference], Any]) -> str:
    """Return a subtask with the values of its references; a value's own double braces are literal.

    In a subtask that is a JSON object or list, a string that is exactly one reference becomes the value.

    Args:
        subtask: the subtask.
        names: the names that are references, besides the reserved ones.
        value_of: returns the value of a reference; a reference for which it returns a `Reference` stays.
    """
    kept: list[str] = []

    def value_in(part: Reference) -> Any:
        value = value_of(part)
        if isinstance(value, Reference):
            kept.append(str(value))
            return f"\0{len(kept) - 1}\0"  # stored texts have no NUL
        return value

    def in_data(data: Any) -> Any:
        if isinstance(data, dict):
            return {key: in_data(each) for key, each in data.items()}
        if isinstance(data, list):
            return [in_data(each) for each in data]
        parts = list(parts_of(data, names)) if isinstance(data, str) else ()
        if len(parts) == 1 and isinstance(parts[0], Reference):
            return value_in(parts[0])
        return in_text(parts) if isinstance(data, str) else data

    def in_text(parts: Iterable[str | Reference]) -> str:
        return "".join(part if isinstance(part, str) else written(value_in(part)) for part in parts)

    if "{{" not in subtask:
        return subtask
    data = json_in(subtask)
    if data is None:
        text = in_text(parts_of(subtask, names))
    else:
        text = json.dumps(in_data(data), ensure_ascii=False)
    marked = re.compile(r"(?:\0|\\u0000)([0-9]+)(?:\0|\\u0000)")
    return marked.sub(lambda found: kept[int(found[1])], _FOUND.sub(lambda found: "\\" + found[0], text))


def written(value: Any) -> str:
    """Return a value as text: a string as it is, other values as compact JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_in(text: str) -> Any:
    """Return the JSON object or list that a text is, bare or in a code fence; `None` for another text."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare.strip("`").removeprefix("json").strip()
    if not bare.startswith(("{", "[")):
        return None
    try:
        return json.loads(bare, strict=False)
    except (ValueError, RecursionError):
        return None


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return the part of a value at a path.

    Raises:
        KeyError: there is no such part; the argument is the key.
    """
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise KeyError(key)
    return value
