"""A worker that runs a compiled LangGraph graph, such as an agent.

The module sets the graph's input state and its thread.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import anyio.to_thread
from langchain_core.messages import AIMessageChunk, convert_to_messages
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig, ensure_config

from langchain_podium.cards import innermost
from langchain_podium.graph.around import CHECKPOINTER
from langchain_podium.graph.graph_node import is_called_sync
from langchain_podium.messages import text_of, to_langchain
from langchain_podium.usage import Spent
from langchain_podium.workers.errors import interrupted
from langchain_podium.workers.parts import AGENT_NODES, is_plain_agent
from langchain_podium.workers.runnable import RunnableWorker, asked_messages
from podium.types import Completion
from podium.workers import Card, Request, StepInput


class GraphWorker(RunnableWorker):
    """Runs a graph; the last message in its state is the answer.

    For an agent with structured output, `structured_response` is the answer, as JSON. Each call starts with
    the step's input alone: a graph with its own checkpointer uses a new thread for each call. Only agents are
    streamed, because only their messages are certainly for the user: the answer is then all that the agent
    wrote, also before it called a tool. The tokens of a `RemoteGraph` are unknown.
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
        self._speaks = give is None and is_plain_agent(innermost(graph))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Invoke the graph, or stream an agent."""
        is_sync = _is_hosted() and is_called_sync()  # then the checkpointer may only support sync calls
        streams = request.stream and self._speaks and not is_sync and request.sampling.constraint is None
        async for piece in super().call(replace(request, stream=streams)):
            if request.stream and not streams and isinstance(piece, Completion):
                yield piece.text
            yield piece

    async def _stream(self, given: Any, config: RunnableConfig) -> AsyncGenerator[Any, None]:
        """Yield the texts of an agent as they are written, and then its state."""
        state, said = None, ""
        stream: Any = self.runnable.astream(given, config, stream_mode=["messages", "values"])
        async with aclosing(stream) as told:
            async for mode, part in told:
                if mode == "values":
                    state = part
                    continue
                chunk, facts = part
                is_own = facts.get("langgraph_node") in AGENT_NODES and isinstance(chunk, AIMessageChunk)
                if is_own and (text := str(chunk.text)):
                    yield f"\n\n{text}" if said not in ("", chunk.id) else text
                    said = chunk.id or ""
        yield state

    def _input(self, request: Request) -> Any:
        if self._give is not None:
            return super()._input(request)
        return {"messages": to_langchain(asked_messages(request))}

    async def _invoke(self, given: Any, config: RunnableConfig) -> Any:
        if _is_hosted() and is_called_sync():  # as above
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

    def _check(self, returned: object) -> None:
        if isinstance(returned, dict) and returned.get("__interrupt__"):
            raise interrupted(self.card.name)

    def _text(self, returned: object) -> str:
        if isinstance(returned, dict) and returned.get("structured_response") is not None:
            return text_of(returned["structured_response"])
        return super()._text(returned)


def _is_hosted() -> bool:
    """Return whether an outer graph with a checkpointer runs this graph."""
    return bool(ensure_config().get("configurable", {}).get(CHECKPOINTER))


def has_messages(graph: object) -> bool:
    """Return whether a graph's state has messages; True for a remote graph, whose state is unknown."""
    return "messages" in getattr(graph, "channels", ("messages",))
