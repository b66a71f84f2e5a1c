"""A worker that is one of AutoGen's tools.

It owns how a subtask becomes a tool's arguments: one that takes one text is given the
subtask; any other is given the JSON object that the subtask holds, which its card asks for.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool

from autogen_podium.cancelling import cancelling
from autogen_podium.faults import calling
from podium.errors import WorkerRefused
from podium.types import Completion, storable
from podium.workers import Card, Request, Worker, step_input_of


class ToolWorker(Worker):
    """Calls a tool with what the subtask says.

    Args:
        tool: what is called.
        card: what the planner is told of it; how a subtask must be written is added to it.
    """

    uses_tokens = False

    def __init__(self, tool: BaseTool[Any, Any], *, card: Card) -> None:
        self.tool = tool
        self._arguments: Mapping[str, Any] = tool.schema.get("parameters", {}).get("properties", {})
        self._takes_text = [kind.get("type") for kind in self._arguments.values()] == ["string"]
        told = f"Its subtask is a JSON object of {self._spelled()}, and nothing else."
        if self._takes_text or card.description.endswith(told):
            told = ""
        self.card = replace(card, description=f"{card.description} {told}".strip())

    def __repr__(self) -> str:
        return f"ToolWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the tool.

        Raises:
            WorkerRefused: the subtask holds no JSON object, where the tool needs one.
        """
        subtask, token = step_input_of(request).subtask, CancellationToken()
        given = dict.fromkeys(self._arguments, subtask) if self._takes_text else self._read(subtask)
        with calling(self.card.name):
            returned = await cancelling(token, self.tool.run_json(given, token))
            text = storable(self.tool.return_value_as_string(returned))
        if request.stream and text:
            yield text
        yield Completion(text)

    def _read(self, subtask: str) -> dict[str, Any]:
        start, end = subtask.find("{"), subtask.rfind("}")
        told = subtask[start : end + 1] if self._arguments else "{}"
        try:
            arguments = json.loads(told, strict=False)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            told = f"tool {self.tool.name!r} takes {self._spelled()}"
            raise WorkerRefused(f"{told}: write the subtask as a JSON object of them")
        return arguments

    def _spelled(self) -> str:
        kinds = {name: kind.get("type", "any") for name, kind in self._arguments.items()}
        return "{" + ", ".join(f'"{name}": {kind}' for name, kind in kinds.items()) + "}"
