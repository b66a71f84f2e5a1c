"""A worker that calls a LangChain tool."""

from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from langchain_podium.cancellation import apart
from langchain_podium.content import content_completion, is_content
from langchain_podium.messages import text_of
from langchain_podium.workers.errors import langchain_errors
from podium.errors import ToolFailed
from podium.hosts import ToolWorker
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card


def tool_worker(tool: BaseTool, card: Card) -> ToolWorker:
    """Return a worker that calls a tool."""

    async def call(arguments: dict[str, Any]) -> Completion:
        with langchain_errors(card.name, acts_first=True):
            if tool.response_format == "content":
                return _completion(await _called(tool, arguments, card.name), card.name)
            # Only a call with an id also returns the artifact.
            asked = ToolCall(type="tool_call", id=uuid4().hex, name=tool.name, args=arguments)
            returned = await apart(tool.ainvoke(asked))
            if not isinstance(returned, ToolMessage):
                return _completion(returned, card.name)
            if returned.status == "error":
                raise ToolFailed(f"tool {card.name!r} failed: {str(returned.text)[:300]}", maybe_paid=True)
            content = returned.content if isinstance(returned.content, list) else [returned.content]
            return content_completion(content, returned.artifact, card.name)

    schema = tool.args_schema
    model = schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None
    worker = ToolWorker(_schema(tool), call, card=card, model=model)
    worker.is_interruptible = True
    return worker


async def _called(tool: BaseTool, arguments: dict[str, Any], worker: str) -> object:
    """Call a tool that returns only content, and return the content unchanged.

    Raises:
        ToolFailed: the tool raised an error that `handle_tool_error` or `handle_validation_error` converted
            to text; the text alone would not show it.
    """
    failed = list[Exception]()

    def noted(handler: Any) -> Any:
        def text(error: Exception) -> str:
            failed.append(error)
            if callable(handler):
                return str(handler(error))
            return handler if isinstance(handler, str) else str(error)

        return text

    names = ("handle_tool_error", "handle_validation_error")
    handlers = {name: noted(handler) for name in names if (handler := getattr(tool, name))}
    own = tool.model_copy(update=handlers) if handlers else tool
    returned = await apart(own.ainvoke(arguments))
    if failed:
        raise ToolFailed(f"tool {worker!r} failed: {str(returned)[:300]}", maybe_paid=True) from failed[0]
    return returned


def _completion(returned: object, worker: str) -> Completion:
    if isinstance(returned, list) and is_content(returned):
        return content_completion(returned, None, worker)
    return Completion(storable(text_of(returned)))


def _schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of the arguments that a model may write."""
    schema: Any = tool.tool_call_schema
    if not isinstance(schema, dict):
        # Pydantic 1 has no model_json_schema
        schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
    return {**schema, "properties": tool.args}
