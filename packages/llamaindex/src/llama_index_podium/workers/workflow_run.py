"""Follow one run of a LlamaIndex workflow or agent, for a worker.

The module ends the run of the workflow, and converts the result to text.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.base.response.schema import PydanticResponse, Response
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Event, InputRequiredEvent, StopEvent

from llama_index_podium.sources import text_of as text_of_nodes
from podium.aio.calls import shielded
from podium.errors import WorkerRefused
from podium.hosts import text_of

if TYPE_CHECKING:
    from workflows.handler import WorkflowHandler


async def events_of_run(handler: "WorkflowHandler", worker: str) -> AsyncGenerator[Event, None]:
    """Yield the events that a run writes to its stream. Leaving the iteration cancels the run.

    `await handler` returns the result of the run, or raises its error.

    Args:
        handler: the run.
        worker: the name on the worker's card, for an error.

    Raises:
        WorkerRefused: the run waits for an answer of a person, who cannot be asked here.
    """
    try:
        async with aclosing(handler.stream_events()) as events:
            async for event in events:
                if isinstance(event, InputRequiredEvent):
                    asked = f"{getattr(event, 'prefix', '')!r:.200}"
                    told = f"worker {worker!r} waits for a person to answer {asked}"
                    raise WorkerRefused(f"{told}: ask before the run, with Policy(approve=...)")
                if not isinstance(event, StopEvent):
                    yield event
    finally:
        if not handler.is_done():
            await shielded(handler.cancel_run())


def text_of_result(result: object) -> str:
    """Return the result of a workflow as text: text unchanged, nodes as passages, other values as JSON."""
    match result:
        case ChatMessage():
            return result.content or ""
        case ChatResponse():
            return result.message.content or ""
        case Response() | PydanticResponse():
            return str(result) if result.response else ""
        case [NodeWithScore(), *_]:
            return text_of_nodes(node for node in result if isinstance(node, NodeWithScore))
        case StopEvent():  # a subclass of the workflow's own
            return text_of(result.model_dump(mode="json"))
    return text_of(result)


def nodes_of_result(result: object) -> Any:
    """Return the nodes in the result of a workflow or a tool; other results are returned unchanged."""
    return getattr(result, "source_nodes", result)
