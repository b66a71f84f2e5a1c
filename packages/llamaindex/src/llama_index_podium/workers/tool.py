"""A worker that is one of LlamaIndex's tools.

It owns how a subtask becomes a tool's arguments: one that takes one text is given the
subtask; any other is given the JSON object that the subtask holds, which its card asks for.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

from llama_index.core.tools import BaseTool, ToolOutput
from llama_index.core.tools.types import adapt_to_async_tool

from llama_index_podium.sources import note
from llama_index_podium.spent import spending
from llama_index_podium.workers.blocking import in_thread, is_blocking
from llama_index_podium.workers.faults import calling, fault_of
from podium.errors import WorkerFailed, WorkerRefused
from podium.types import Completion, storable
from podium.workers import Card, Request, Worker, step_input_of


class ToolWorker(Worker):
    """Calls a tool with what the subtask says.

    Args:
        tool: what is called.
        card: what the planner is told of it; how a subtask must be written is added to it.
    """

    uses_tokens = False

    def __init__(self, tool: BaseTool, *, card: Card) -> None:
        self.tool = adapt_to_async_tool(tool)
        self._arguments: Mapping[str, Any] = tool.metadata.get_parameters_dict().get("properties", {})
        self._takes_text = [kind.get("type") for kind in self._arguments.values()] == ["string"]
        told = "" if self._takes_text else f"Its subtask is a JSON object of {self._spelled()}, nothing else."
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
        with spending() as spent, calling(self.card.name, spent):
            output = await self._called(given)
            raw = output.raw_output
            note(getattr(raw, "source_nodes", raw))
            if output.is_error:
                raise self._failed(output)
            text = storable(output.content)
        if request.stream and text:
            yield text
        yield Completion(text, usage=spent.usage)

    async def _called(self, given: Mapping[str, Any]) -> ToolOutput:
        if is_blocking(self.tool):
            return await in_thread(lambda: self.tool.call(**given))
        return await self.tool.acall(**given)

    def _failed(self, output: ToolOutput) -> Exception:
        if output.exception is not None:
            return fault_of(output.exception, self.card.name)
        return WorkerFailed(f"tool {self.card.name!r} failed: {output.content[:300]}", maybe_paid=True)

    def _read(self, subtask: str) -> dict[str, Any]:
        start, end = subtask.find("{"), subtask.rfind("}")
        told = subtask[start : end + 1] if self._arguments else "{}"
        try:
            arguments = json.loads(told, strict=False)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            takes = f"tool {self.card.name!r} takes {self._spelled()}"
            raise WorkerRefused(f"{takes}: write the subtask as a JSON object of them")
        return arguments

    def _spelled(self) -> str:
        kinds = {name: kind.get("type", "any") for name, kind in self._arguments.items()}
        return ", ".join(f'"{name}" ({kind})' for name, kind in kinds.items()) or "nothing"
