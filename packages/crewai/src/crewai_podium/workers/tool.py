"""A worker that calls a CrewAI tool."""

from typing import Any

from anyio import to_thread
from crewai.tools.base_tool import BaseTool

from crewai_podium.workers.errors import read_error
from podium.hosts import ToolWorker, text_of
from podium.workers import Card


def tool_worker(tool: BaseTool, card: Card) -> ToolWorker:
    """Return a worker that runs a tool in a thread. A cancel cannot stop the thread."""

    async def call(arguments: dict[str, Any]) -> str:
        return text_of(await to_thread.run_sync(lambda: tool.run(**arguments), abandon_on_cancel=True))

    return ToolWorker(tool.args_schema.model_json_schema(), call, card=card, reader=read_error)
