"""A worker that is one of LangChain's tools."""

from typing import Any

from langchain_core.tools import BaseTool

from langchain_podium.cancellation import apart
from langchain_podium.messages import text_of
from langchain_podium.workers.errors import langchain_errors
from podium.hosts import ToolWorker
from podium.workers import Card


def tool_worker(tool: BaseTool, card: Card) -> ToolWorker:
    """Return a worker that calls a tool."""

    async def call(arguments: dict[str, Any]) -> str:
        with langchain_errors(card.name):
            return text_of(await apart(tool.ainvoke(arguments)))

    return ToolWorker({"properties": tool.args}, call, card=card)
