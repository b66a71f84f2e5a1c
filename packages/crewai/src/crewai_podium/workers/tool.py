"""A worker that is one of CrewAI's tools.

It owns how a subtask becomes a tool's arguments: one that takes one text is given the
subtask; any other is given the JSON object that the subtask holds, which its card asks for.
"""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from anyio import to_thread
from crewai.tools.base_tool import BaseTool

from crewai_podium.faults import calling
from crewai_podium.texts import text_of
from podium.errors import WorkerRefused
from podium.types import Completion
from podium.workers import Card, Request, Worker, step_input_of


class ToolWorker(Worker):
    """Runs a tool, in a thread, with what the subtask says.

    Args:
        tool: what is run.
        card: what the planner is told of it; how a subtask must be written is added to it.
    """

    uses_tokens = False

    def __init__(self, tool: BaseTool, *, card: Card) -> None:
        self.tool = tool
        self._kinds: dict[str, Any] = tool.args_schema.model_json_schema().get("properties", {})
        self._takes_text = [kind.get("type") for kind in self._kinds.values()] == ["string"]
        told = "" if self._takes_text else f"Its subtask is a JSON object of {self._spelled()}, nothing else."
        self.card = replace(card, description=f"{card.description} {told}".strip())

    def __repr__(self) -> str:
        return f"ToolWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Run the tool.

        Raises:
            WorkerRefused: the subtask holds no JSON object, where the tool needs one.
        """
        subtask = step_input_of(request).subtask
        given = dict.fromkeys(self._kinds, subtask) if self._takes_text else self._read(subtask)
        with calling(self.card.name):
            text = text_of(await to_thread.run_sync(lambda: self.tool.run(**given), abandon_on_cancel=True))
        if request.stream and text:
            yield text
        yield Completion(text)

    def _read(self, subtask: str) -> dict[str, Any]:
        start, end = subtask.find("{"), subtask.rfind("}")
        try:
            given = json.loads(subtask[start : end + 1], strict=False) if self._kinds else {}
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            told = f"tool {self.card.name!r} takes {self._spelled()}"
            raise WorkerRefused(f"{told}: write the subtask as a JSON object of them")
        return given

    def _spelled(self) -> str:
        kinds = {name: kind.get("type", "any") for name, kind in self._kinds.items()}
        return ", ".join(f'"{name}" ({kind})' for name, kind in kinds.items()) or "nothing"
