"""A worker that is a tool of a host, and how a subtask becomes the tool's arguments.

A tool of one text argument is given the subtask. A tool of any other arguments is given the
JSON object that the subtask holds; its card asks the planner to write one.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from podium.errors import WorkerRefused
from podium.hosts.errors import HostErrorReader, worker_errors
from podium.types import Completion, storable
from podium.workers import Card, Request, Worker, step_input_of


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

    def __init__(
        self,
        schema: Mapping[str, Any],
        call: Callable[[dict[str, Any]], Awaitable[str | Completion]],
        *,
        card: Card,
        reader: HostErrorReader | None = None,
    ) -> None:
        self._arguments: Mapping[str, Any] = schema.get("properties") or {}
        self._takes_text = [kind.get("type") for kind in self._arguments.values()] == ["string"]
        self._call = call
        self._reader = reader
        rule = f"Its subtask is a JSON object of {self._described()}, and nothing else."
        if self._takes_text or card.description.endswith(rule):  # a card that was saved has the rule already
            rule = ""
        self.card = replace(card, description=f"{card.description} {rule}".strip())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the tool.

        Raises:
            WorkerRefused: the subtask holds no JSON object, and the tool needs one.
            WorkerError: the tool raised.
        """
        subtask = step_input_of(request).subtask
        given = dict.fromkeys(self._arguments, subtask) if self._takes_text else self._read(subtask)
        with worker_errors(self.card.name, reader=self._reader):
            output = await self._call(given)
        done = output if isinstance(output, Completion) else Completion(storable(output))
        if request.stream and done.text:
            yield done.text
        yield done

    def _read(self, subtask: str) -> dict[str, Any]:
        start, end = subtask.find("{"), subtask.rfind("}")
        text = subtask[start : end + 1] if self._arguments else "{}"
        try:
            arguments = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            takes = f"tool {self.card.name!r} takes {self._described()}"
            raise WorkerRefused(f"{takes}: write the subtask as a JSON object of them")
        return arguments

    def _described(self) -> str:
        kinds = {name: kind.get("type", "any") for name, kind in self._arguments.items()}
        return ", ".join(f'"{name}" ({kind})' for name, kind in kinds.items()) or "nothing"
