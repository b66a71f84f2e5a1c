"""A worker that is a tool of a host, and how a subtask becomes the tool's arguments.

A tool that needs one text argument is given the subtask as this argument. A subtask that is a JSON
object of the tool's arguments gives all of them; other tools need one, and their card asks the
planner to write it.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any, TypeGuard

from podium.errors import WorkerRefused
from podium.hosts.errors import HostErrorReader, worker_errors
from podium.prompts import holds_object, mentioned
from podium.types import Completion, storable
from podium.workers import Card, Request, StepInput, Worker, step_input_of

_NUMBERS: Mapping[str, Callable[[str], float]] = {"integer": int, "number": float}
"""Types of JSON schema, and what reads a text as one."""


class ToolWorker(Worker):
    """Calls a tool with what the subtask says.

    Args:
        schema: JSON schema of the tool's arguments: an object with `properties`.
        call: calls the tool with its arguments, and returns its output as text; or as a
            `Completion`, where models that the tool called have spent tokens. What it raises is
            translated by `worker_errors`.
        card: what the planner is told of the tool; how a subtask is written is added to the
            description.
        reader: recognises exceptions that only this host raises.
    """

    uses_tokens = False
    reads_prose = False

    def __init__(
        self,
        schema: Mapping[str, Any],
        call: Callable[[dict[str, Any]], Awaitable[str | Completion]],
        *,
        card: Card,
        reader: HostErrorReader | None = None,
    ) -> None:
        self._arguments: Mapping[str, Any] = schema.get("properties") or {}
        self._required = self._arguments.keys() & frozenset(schema.get("required") or ())
        self._text = self._text_argument()
        self._call = call
        self._reader = reader
        rule = self._rule()
        if card.description.endswith(rule):  # a card that was saved has the rule already
            rule = ""
        self.card = replace(card, description=f"{card.description} {rule}".strip())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the tool.

        Raises:
            WorkerRefused: the subtask holds no JSON object, and the tool needs one; or an argument that
                is to be a number is another text.
            WorkerError: the tool raised.
        """
        given = self._read(step_input_of(request))
        with worker_errors(self.card.name, reader=self._reader):
            output = await self._call(given)
        done = output if isinstance(output, Completion) else Completion(storable(output))
        if request.stream and done.text:
            yield done.text
        yield done

    def _text_argument(self) -> str | None:
        """Return the argument that a plain subtask is for: the only one, or the only one required."""
        names = list(self._arguments) if len(self._arguments) == 1 else sorted(self._required)
        is_text = len(names) == 1 and self._arguments.get(names[0], {}).get("type") == "string"
        return names[0] if is_text else None

    def _rule(self) -> str:
        """Say how a subtask is written, where it is not simply the text that the tool takes."""
        if self._text is None:
            return f"Its subtask is a JSON object of {self._described()}, and nothing else."
        if len(self._arguments) == 1:
            return ""
        return f'Its subtask is its "{self._text}", or a JSON object of {self._described()}.'

    def _read(self, step_input: StepInput) -> dict[str, Any]:
        """Return the tool's arguments.

        Raises:
            WorkerRefused: the subtask holds no JSON object, and the tool needs one; or an argument that
                is to be a number is another text.
        """
        if not self._arguments:
            return {}
        subtask, template = step_input.subtask, step_input.template or step_input.subtask
        # The plan says what is an argument: an output that is filled in can neither add nor close one.
        is_object = holds_object(template) or "{" not in mentioned(template)
        start, end = subtask.find("{"), subtask.rfind("}") + 1
        try:
            arguments = json.loads(subtask[start:end], strict=False) if is_object else None
        except (ValueError, RecursionError):
            arguments = None
        if self._text is not None:
            is_whole = template.lstrip().startswith("{") and holds_object(template)
            if not is_whole or not self._fits(arguments):
                return {self._text: subtask}
        if not isinstance(arguments, dict):
            takes = f"tool {self.card.name!r} takes {self._described()}"
            raise WorkerRefused(f"{takes}: write the subtask as a JSON object of them")
        return {name: self._typed(name, value) for name, value in arguments.items()}

    def _typed(self, name: str, value: object) -> object:
        """Return a number for a text where the tool takes a number, as an output that is filled in is text.

        Raises:
            WorkerRefused: the text is no such number. Not every host checks, and Python multiplies text.
        """
        kind = self._arguments.get(name, {}).get("type")
        if not isinstance(value, str) or kind not in _NUMBERS:
            return value
        try:
            number = _NUMBERS[kind](value)
            if isinstance(number, int) or isfinite(number):
                return number
        except ValueError:
            pass
        told = f"tool {self.card.name!r} takes {kind} as {name!r}, and was given {value[:80]!r}"
        raise WorkerRefused(f"{told}: let a step before it give the number and nothing else")

    def _fits(self, arguments: object) -> TypeGuard[dict[str, Any]]:
        """Say whether a JSON value names arguments of the tool, and those that it requires."""
        if not isinstance(arguments, dict):
            return False
        return self._required | {self._text} <= arguments.keys() <= self._arguments.keys()

    def _described(self) -> str:
        kinds = {name: kind.get("type", "any") for name, kind in self._arguments.items()}
        return ", ".join(f'"{name}" ({kind})' for name, kind in kinds.items()) or "nothing"
