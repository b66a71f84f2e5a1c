"""A worker that is one of LangChain's tools.

It owns how a subtask becomes a tool's arguments: one that takes one text is given the
subtask; any other is given the JSON object that the subtask holds, which its card asks for.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.tools import BaseTool

from langchain_podium.apart import apart
from langchain_podium.texts import text_of
from langchain_podium.workers.calling import calling
from podium.errors import WorkerRefused
from podium.types import Completion
from podium.workers import Card, Request, Worker, step_input_of


class ToolWorker(Worker):
    """Calls a tool with what the subtask says.

    Args:
        tool: what is called.
        card: what the planner is told of it; how a subtask must be written is added to it.
    """

    uses_tokens = False

    def __init__(self, tool: BaseTool, *, card: Card) -> None:
        self.tool = tool
        self._arguments: Mapping[str, Any] = tool.args
        self._takes_text = [kind.get("type") for kind in self._arguments.values()] == ["string"]
        told = (
            ""
            if self._takes_text
            else f"Its subtask is a JSON object of {self._spelled()}, and nothing else."
        )
        self.card = replace(card, description=f"{card.description} {told}".strip())

    def __repr__(self) -> str:
        return f"ToolWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the tool.

        Raises:
            WorkerRefused: the subtask holds no JSON object, where the tool needs one.
        """
        subtask = step_input_of(request).subtask
        given = dict.fromkeys(self._arguments, subtask) if self._takes_text else self._read(subtask)
        with calling(self.card.name):
            text = text_of(await apart(self.tool.ainvoke(given)))
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
            told = f"tool {self.card.name!r} takes {self._spelled()}"
            raise WorkerRefused(f"{told}: write the subtask as a JSON object of them")
        return arguments

    def _spelled(self) -> str:
        kinds = {name: kind.get("type", "any") for name, kind in self._arguments.items()}
        return ", ".join(f'"{name}" ({kind})' for name, kind in kinds.items()) or "nothing"
