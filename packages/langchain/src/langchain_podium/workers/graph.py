"""A worker that is a compiled LangGraph graph, an agent for one.

It owns the state such a graph is given, and the thread it remembers in. LangGraph is never
imported here: whoever has a graph has done so.
"""

import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import uuid4

import anyio.to_thread
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig, ensure_config

from langchain_podium.graph.graph_node import is_called_sync
from langchain_podium.messages import text_of, to_langchain
from langchain_podium.usage import Spent
from langchain_podium.workers.errors import interrupted
from langchain_podium.workers.runnable import RunnableWorker
from podium.types import Completion
from podium.workers import Card, Request, StepInput

_HOST: Final = "__pregel_checkpointer"
"""Stands in the configuration where a graph with a checkpointer runs this one, in a thread of its own."""


class GraphWorker(RunnableWorker):
    """Has a graph do the subtask; the last of its state's messages is the answer.

    Of an agent that answers in a form, `structured_response` is the answer, as JSON.

    Each call begins with no more than the step is shown: a graph with a checkpointer of its own
    remembers every call in another thread.

    The answer comes in one piece, since nobody knows which of an agent's messages is the last
    before it ends; LangChain's callbacks get its tokens as they come.
    """

    def __init__(
        self, runnable: Runnable[Any, Any], *, card: Card, give: Callable[[StepInput], Any] | None = None
    ) -> None:
        graph: Any = runnable
        if getattr(graph, "checkpointer", None) is True:  # it would go on where an earlier run's step ended
            graph = graph.copy(update={"checkpointer": None})
        super().__init__(graph, card=card, give=give)
        self.is_interruptible = True

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Invoke the graph."""
        async for piece in super().call(replace(request, stream=False)):
            if request.stream and isinstance(piece, Completion):
                yield piece.text
            yield piece

    def _input(self, request: Request) -> Any:
        if self._give is not None:
            return super()._input(request)
        return {"messages": to_langchain(request.messages)}

    async def _invoke(self, given: Any, config: RunnableConfig) -> Any:
        if _is_hosted() and is_called_sync():  # by the host's checkpointer, which may be nothing else
            return await anyio.to_thread.run_sync(partial(self.runnable.invoke, given, config))
        return await super()._invoke(given, config)

    def _config(self, spent: Spent) -> RunnableConfig:
        config = super()._config(spent)
        remembers = getattr(self.runnable, "checkpointer", None) not in (None, False)
        if remembers and not _is_hosted():
            config["configurable"] = {"thread_id": uuid4().hex}
        return config

    def _text(self, returned: object) -> str:
        if isinstance(returned, dict) and returned.get("__interrupt__"):
            raise interrupted(self.card.name)
        if isinstance(returned, dict) and returned.get("structured_response") is not None:
            return text_of(returned["structured_response"])
        return super()._text(returned)


def _is_hosted() -> bool:
    return bool(ensure_config().get("configurable", {}).get(_HOST))


def is_graph(thing: object) -> bool:
    """Say whether it is a compiled graph."""
    protocol = sys.modules.get("langgraph.pregel.protocol")
    return protocol is not None and isinstance(thing, protocol.PregelProtocol)


def has_messages(graph: object) -> bool:
    """Say whether the state of a graph has messages; one that runs elsewhere is taken at its word."""
    return "messages" in getattr(graph, "channels", ("messages",))
