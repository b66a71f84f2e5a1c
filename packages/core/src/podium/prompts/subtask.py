"""Writes the subtask that a worker is given: what becomes of the references in it.

A worker that reads no prose is given the outputs themselves; where the whole subtask is a JSON
object, as JSON strings.
Other workers are shown the outputs anyway, and read which step is meant.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from podium.budget.limits import Limits
from podium.errors import PlanInvalid
from podium.types.messages import Message
from podium.types.plan import Plan, Step
from podium.types.references import parts_of
from podium.workers.worker import StepInput, VisibleStep, Worker

_Place = Literal["string", "value", "outside"]
_NO_LABELS: Mapping[int, int] = {}
MOST_CHARS = Limits().output_chars
"""Most characters of a subtask with outputs filled in, where nobody sets a limit."""


def step_input(
    worker: Worker,
    step: Step,
    visible: Sequence[VisibleStep],
    query: Sequence[Message] = (),
    *,
    most_chars: int = MOST_CHARS,
) -> StepInput:
    """Return what a worker is shown of a run.

    Args:
        worker: the worker that does the step.
        step: the step.
        visible: the steps that the worker is shown.
        query: the conversation; empty where workers are not shown the question.
        most_chars: most characters of a subtask with outputs filled in.

    Raises:
        PlanInvalid: the subtask is longer than that.
    """
    labels = {shown.step: shown.label for shown in visible if shown.label is not None and not shown.previous}
    subtask = mentioned(step.subtask, labels)
    if subtask != step.subtask and not worker.reads_prose:
        outputs = {shown.step: shown.output for shown in visible if not shown.previous}
        subtask = _filled(step.subtask, outputs, most_chars)
    return StepInput(subtask, tuple(visible), tuple(query), step.subtask)


def shown_step(plan: Plan, index: int, output: str, gap: str = "", *, previous: bool = False) -> VisibleStep:
    """Return a step of a plan as workers are shown it.

    Args:
        plan: the plan.
        index: the step's index in the plan.
        output: the step's output.
        gap: why there is no output; empty where there is one.
        previous: whether it is a step of the round before.
    """
    step = plan.steps[index]
    subtask = mentioned(step.subtask, dict(enumerate(plan.labels)))
    return VisibleStep(index, subtask, output, gap, previous, step.label)


def mentioned(subtask: str, labels: Mapping[int, int] = _NO_LABELS) -> str:
    """Return a subtask with its references in words: "the output of step 0".

    Args:
        subtask: the subtask as the plan has it.
        labels: the numbers under which steps are shown, by index; steps not in it are shown by index.
    """
    if "{{" not in subtask:
        return subtask
    parts = parts_of(subtask)
    return "".join(part if isinstance(part, str) else _in_words(labels.get(part, part)) for part in parts)


def _in_words(step: int) -> str:
    return f"the output of step {step}"


def is_object(subtask: str) -> bool:
    """Say whether a subtask as the plan has it is a JSON object, bare or fenced, whatever is filled in."""
    return _is_whole(parts := list(parts_of(subtask)), _places(parts))


def filled_object(subtask: str, outputs: Mapping[int, str]) -> str | None:
    """Return the JSON object in a subtask with outputs filled in; `None` where there is no object.

    An output can neither add a part to the object nor end the object.

    Args:
        subtask: the subtask as the plan has it.
        outputs: what its references stand for, by step.
    """
    parts = list(parts_of(subtask))
    places = _places(parts)
    if places is None:
        return None
    inside = [(part, place) for part, place in zip(parts, places, strict=True) if _is_in(part, place)]
    text = "".join(_as_json(part, place, outputs) for part, place in inside)
    return text[text.find("{") : text.rfind("}") + 1]


def _filled(subtask: str, outputs: Mapping[int, str], most_chars: int) -> str:
    """Return a subtask with outputs in place of references. What is filled in is not read again.

    Where the whole subtask is a JSON object, a reference inside a string continues that string,
    and another reference is a string of its own.
    """
    parts = list(parts_of(subtask))
    size = sum(len(part if isinstance(part, str) else outputs[part]) for part in parts)
    if size <= most_chars:
        text = "".join(_written(parts, outputs))
        size = len(text)
        if size <= most_chars:
            return text
    told = f"the subtask has {size:,} characters with the outputs it refers to filled in"
    raise PlanInvalid("subtask_too_long", f"{told}; Limits.output_chars allows {most_chars:,}")


def _written(parts: Sequence[str | int], outputs: Mapping[int, str]) -> Iterator[str]:
    places = _places(parts)
    if places is not None and _is_whole(parts, places):
        for part, place in zip(parts, places, strict=True):
            yield _as_json(part, place, outputs)
        return
    for part in parts:
        yield part if isinstance(part, str) else outputs[part]


def _is_whole(parts: Sequence[str | int], places: Sequence[_Place] | None) -> bool:
    """Say whether nothing but a code fence stands beside the JSON object."""
    if places is None or not all(map(_is_in, parts, places)):
        return False
    text = "".join(part for part in parts if isinstance(part, str)).strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.strip("`").removeprefix("json").strip()
    return text.startswith("{") and text.endswith("}")


def _is_in(part: str | int, place: _Place) -> bool:
    return isinstance(part, str) or place != "outside"


def _as_json(part: str | int, place: _Place, outputs: Mapping[int, str]) -> str:
    if isinstance(part, str):
        return part
    quoted = json.dumps(outputs[part], ensure_ascii=False)
    return quoted[1:-1] if place == "string" else quoted


def _places(parts: Sequence[str | int]) -> list[_Place] | None:
    """Return where each part ends: in a string of the JSON object, elsewhere in it, or outside of it.

    `None` means that there is no JSON object.
    """
    closing = [at for at, part in enumerate(parts) if isinstance(part, str) and "}" in part]
    object_end = max(closing, default=-1)
    places, text = list[_Place](), ""
    is_inside = in_string = False
    for at, part in enumerate(parts):
        if isinstance(part, str):
            start = 0 if is_inside else part.find("{")
            is_inside = is_inside or start >= 0
            in_string = is_inside and _ends_in_string(part[max(start, 0) :], in_string=in_string)
        place: _Place = "outside" if not is_inside or at > object_end else "string" if in_string else "value"
        places.append(place)
        text += part if isinstance(part, str) else '""' if place == "value" else ""
    return places if _parses(text) else None


def _ends_in_string(text: str, *, in_string: bool) -> bool:
    """Say whether the end of some JSON text is inside a string."""
    is_escaped = False
    for character in text:
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = in_string
        elif character == '"':
            in_string = not in_string
    return in_string


def _parses(text: str) -> bool:
    try:
        found = json.loads(text[text.find("{") : text.rfind("}") + 1], strict=False)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict)
