r"""References in subtasks to outputs, items and named texts.

`{{n}}` stands for the output of step n, `{{n.field}}` for a part of it, and `{{name}}` for a named text of
the run. `{{item}}` and `{{index}}` stand for the item of a map and its number, `{{previous}}` for the turn
before, `{{outer.n}}` for a step of the plan around a block.

A backslash before two braces, `\{{`, makes them literal. Double braces around other text are literal. Double
braces around a name are literal too, if nothing has this name.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

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
