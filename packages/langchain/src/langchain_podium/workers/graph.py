"""A worker that runs a compiled LangGraph graph, such as an agent.

The module sets the graph's input state and its thread.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import uuid4

import anyio.to_thread
from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig, ensure_config

from langchain_podium.cards import innermost
from langchain_podium.graph.graph_node import is_called_sync
from langchain_podium.messages import text_of, to_langchain
from langchain_podium.usage import Spent
from langchain_podium.workers.errors import interrupted
from langchain_podium.workers.runnable import RunnableWorker, asked_messages
from podium.types import Completion
from podium.workers import Card, Request, StepInput

_HOST: Final = "__pregel_checkpointer"
"""The configuration key that is set if an outer graph with a checkpointer runs this graph."""


class GraphWorker(RunnableWorker):
    """Runs a graph; the last message in its state is the answer.

    For an agent with structured output, `structured_response` is the answer, as JSON. Each call starts with
    the step's input alone: a graph with its own checkpointer uses a new thread for each call. The answer is
    not streamed, because only the end of an agent shows which message is the last; LangChain's callbacks get
    its tokens as they are written. The tokens of a `RemoteGraph` are unknown.
    """

    def __init__(
        self, runnable: Runnable[Any, Any], *, card: Card, give: Callable[[StepInput], Any] | None = None
    ) -> None:
        graph: Any = runnable
        # otherwise it would continue where an earlier run's step ended
        if getattr(graph, "checkpointer", None) is True:
            graph = graph.copy(update={"checkpointer": None})
        super().__init__(graph, card=card, give=give)
        self.is_interruptible = True
        self._is_remote = not hasattr(innermost(graph), "channels")

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Invoke the graph."""
        async for piece in super().call(replace(request, stream=False)):
            if request.stream and isinstance(piece, Completion):
                yield piece.text
            yield piece

    def _input(self, request: Request) -> Any:
        if self._give is not None:
            return super()._input(request)
        return {"messages": to_langchain(asked_messages(request))}

    async def _invoke(self, given: Any, config: RunnableConfig) -> Any:
        if _is_hosted() and is_called_sync():  # the outer graph's checkpointer may only support sync calls
            return await anyio.to_thread.run_sync(partial(self.runnable.invoke, given, config))
        returned = await super()._invoke(given, config)
        if self._is_remote and isinstance(returned, dict) and "messages" in returned:
            return {**returned, "messages": convert_to_messages(returned["messages"])}
        return returned

    def _config(self, spent: Spent) -> RunnableConfig:
        config = super()._config(spent)
        remembers = getattr(self.runnable, "checkpointer", None) not in (None, False)
        if self._is_remote:
            spent.is_elsewhere = True
            config["configurable"] = {"thread_id": None}  # else the thread of an outer graph
        elif remembers and not _is_hosted():
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


def has_messages(graph: object) -> bool:
    """Return whether a graph's state has messages; True for a remote graph, whose state is unknown."""
    return "messages" in getattr(graph, "channels", ("messages",))
