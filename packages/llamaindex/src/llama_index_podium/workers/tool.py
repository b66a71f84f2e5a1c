"""A worker that calls a LlamaIndex tool."""

from typing import Any

from llama_index.core.tools import BaseTool
from llama_index.core.tools.types import adapt_to_async_tool

from llama_index_podium.sources import note
from llama_index_podium.usage import spending
from llama_index_podium.workers.blocking import in_thread, is_blocking
from llama_index_podium.workers.search import is_empty_text, nothing_found
from podium.errors import WorkerFailed
from podium.hosts import ToolWorker, worker_errors
from podium.hosts.results import spent_completion
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card


def tool_worker(tool: BaseTool, *, card: Card) -> ToolWorker:
    """Return a worker that calls a tool, and collects the nodes it finds."""
    called = adapt_to_async_tool(tool)

    async def call(arguments: dict[str, Any]) -> Completion:
        with (
            spending() as spent,
            worker_errors(card.name, usage=lambda: spent.known, has_run=lambda: True),
        ):
            if is_blocking(called):
                output = await in_thread(lambda: called.call(**arguments))
            else:
                output = await called.acall(**arguments)
            nodes = getattr(output.raw_output, "source_nodes", output.raw_output)
            note(nodes)
            if output.exception is not None:
                raise output.exception
            if output.is_error:
                raise WorkerFailed(f"tool {card.name!r} failed: {output.content[:300]}", maybe_paid=True)
        text = "" if output.raw_output is None and output.content == str(None) else output.content
        completion = spent_completion(storable(text), spent.usage_at_end, card)
        if nodes == [] and is_empty_text(completion.text):  # such as from a RetrieverTool
            return nothing_found(", ".join(map(str, arguments.values())), completion)
        return completion

    return ToolWorker(tool.metadata.get_parameters_dict(), call, card=card)
