r"""References in subtasks: `{{n}}` stands for the output of step n.

A backslash before two braces, `\{{`, makes them literal. Double braces around anything that does
not look like a step, such as `{{name}}`, are literal too.
"""

import re
from collections.abc import Callable, Iterator

_FOUND = re.compile(
    r"(?P<escape>\\\{\{)"
    r"|\{\{\s{0,9}(?P<step>[+-]?[0-9]{1,18})\s{0,9}\}\}"
    # `{{1`, `{{1, 2}}`, `{{1.output}}`, `{{step 1}}`, `{{output_of_step_1}}`: meant as references
    r"|(?P<malformed>\{\{\s{0,9}(?:(?:the|of|steps?|outputs?|results?)[\s_#:.\[($-]{0,3}){0,5}[#+-]?[0-9]"
    r"[^{}]{0,20}\}{0,2})",
    re.IGNORECASE,
)


def references_in(subtask: str) -> tuple[int, ...]:
    """Return the steps that a subtask refers to, sorted, each once."""
    return tuple(sorted({part for part in parts_of(subtask) if isinstance(part, int)}))


def parts_of(subtask: str) -> Iterator[str | int]:
    """Yield a subtask in parts: literal text, and the number of a step for each reference."""
    end = 0
    for found in _FOUND.finditer(subtask) if "{{" in subtask else ():
        if found["malformed"] is not None:
            continue
        if found.start() > end:
            yield subtask[end : found.start()]
        yield "{{" if found["escape"] else int(found["step"])
        end = found.end()
    if end < len(subtask):
        yield subtask[end:]


def malformed_reference(subtask: str) -> str:
    """Return the first text that looks like a reference and is none; empty when there is none."""
    found = _FOUND.finditer(subtask) if "{{" in subtask else ()
    return next((one["malformed"] for one in found if one["malformed"] is not None), "")


def renumbered(subtask: str, new: Callable[[int], int]) -> str:
    """Return a subtask whose references have other numbers; everything else stays as it is written."""
    if "{{" not in subtask:
        return subtask
    return _FOUND.sub(lambda found: f"{{{{{new(int(found[2]))}}}}}" if found[2] else found[0], subtask)


def literal(text: str) -> str:
    """Return a subtask that means `text` word for word, whatever braces are in it."""
    return _FOUND.sub(lambda found: "\\" + found[0], text) if "{{" in text else text


def bad_reference(step: str, reference: str) -> str:
    """Say why a step cannot refer to `reference`.

    Args:
        step: the step, in words.
        reference: the number of a step, or the text in braces.
    """
    if reference.lstrip("+-").isdecimal():
        fault = f"{step} refers to {{{{{reference}}}}}, which is not on its access list"
        return f"{fault}: put the step on the list, or write \\{{{{ for literal braces"
    fault = f"{step} holds {reference!r}, which is no reference"
    return f"{fault}: write {{{{n}}}} for the output of step n, or \\{{{{ for literal braces"
