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

    return ToolWorker(_schema(tool), call, card=card)


def _schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of the arguments that a model may write."""
    schema: Any = tool.tool_call_schema
    if not isinstance(schema, dict):
        # a model of pydantic 1 has no model_json_schema
        schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    return {**schema, "properties": tool.args}
