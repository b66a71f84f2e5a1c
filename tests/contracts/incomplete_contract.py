"""Checks that a user of a host who never reads Podium's metadata notices an incomplete answer.

A host's test has a table with each of its faces, and calls `check_noticed` for faces that return text, and
`check_refused` for faces that return objects.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pydantic import BaseModel

from podium import Conductor, Plan, Retry, ScriptedWorker, Step
from podium.errors import RunFailed
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import Request

ANSWER: Final = "All is well."
QUESTION: Final = "Is all well?"
SENTENCE: Final = r"\n\n\(Not complete: the answer was made without step 1 \(second\): .*out of order.*\)"


@dataclass(frozen=True)
class Seen:
    """What a user reads."""

    text: str
    """The text; of a stream, all of its pieces."""
    ending: object = None
    """The host's own value of why the answer ended, such as a finish reason; `None` if the host has none."""


@dataclass(frozen=True, kw_only=True)
class Face:
    """What a way to ask a conductor shows."""

    complete: object = None
    """The host's value for a complete answer."""
    incomplete: object = None
    """The host's value for an incomplete answer."""
    is_text: bool = True
    """Whether the text ends with the sentence."""


class Value(BaseModel):
    """The object that faces are asked for."""

    value: int


OBJECT: Final = '{"value": 7}'
TEXT: Final = Face()
"""A text and nothing else."""
Ask = Callable[[Conductor], Awaitable[Seen]]
Reply = str | Completion
Script = Reply | Callable[[Request], Reply]


def conductor_of(answer: Script = ANSWER, *, is_complete: bool) -> Conductor:
    """Return a conductor of which one of two inputs of the answer fails."""
    second = ScriptedWorker("second", "two" if is_complete else ValueError("it is\nout of order"))
    writer = _Writer("writer", answer, piece=4)
    plan = Plan((Step(0, "One."), Step(1, "Two."), Step(2, "Join.", (0, 1))))
    workers = [ScriptedWorker("first", "one"), second, writer]
    return Conductor(FixedPlanner(plan), workers, retry=Retry(attempts=1))


class _Writer(ScriptedWorker):
    takes_tools = True


def calling(name: str) -> Callable[[Request], Reply]:
    """Return a script that calls the tool of an object with the value 7; without tools, it writes it."""
    function = {"name": name, "arguments": OBJECT}
    call = {"id": "c", "type": "function", "function": function}
    made = Completion("", "tool_calls", tool_calls=(call,))
    return lambda request: OBJECT if request.tools is None else made


async def check_noticed(ask: Ask, face: Face = TEXT) -> None:
    """Check what a user reads of a complete and of an incomplete answer to `QUESTION`."""
    check_seen(face, await ask(conductor_of(is_complete=True)), is_complete=True)
    check_seen(face, await ask(conductor_of(is_complete=False)), is_complete=False)


def check_seen(face: Face, seen: Seen, *, is_complete: bool) -> None:
    """Check what a user read of an answer of `conductor_of`."""
    is_told = face.is_text and not is_complete
    end = re.escape(ANSWER) + (SENTENCE if is_told else "")
    assert re.search(end + "$", seen.text), seen.text
    assert seen.text.count("Not complete") == is_told
    assert seen.ending == (face.complete if is_complete else face.incomplete)


async def check_refused(ask: Callable[[Conductor], Awaitable[Any]], answer: Script) -> None:
    """Check that an incomplete object is an error of Podium or of the host, and no object.

    Args:
        ask: asks for an object with the integer `value`, and returns the integer.
        answer: an answer with the value 7.
    """
    assert await ask(conductor_of(answer, is_complete=True)) == 7
    with pytest.raises(Exception, match=r"(?s)partial.*out of order") as caught:
        await ask(conductor_of(answer, is_complete=False))
    assert isinstance(caught.value, RunFailed | ValueError)


async def check_passed_on(worker: Any) -> None:
    """Check that a run is partial if its worker is a host's tool over an incomplete conductor.

    Args:
        worker: the tool as a worker, over `conductor_of(is_complete=False)`.
    """
    result = await Conductor(FixedPlanner(Plan((Step(0, QUESTION),))), [worker]).run(QUESTION)
    assert result.status == "partial"
    assert "out of order" in result.problem.message
