"""Workers that call a LangChain tool or retriever.

A tool may read more than the arguments in its subtask: the id of its call, and, in a graph, the state,
the store and the runtime, which LangGraph's own `ToolNode` injects.
"""

import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, InjectedToolCallId
from langchain_core.tools.base import _is_injected_arg_type, get_all_basemodel_annotations
from pydantic import BaseModel

from langchain_podium.cancellation import apart
from langchain_podium.graph.around import Around, around, check_checkpointer
from langchain_podium.messages import cited, content_completion, is_content, text_of
from langchain_podium.workers.calls import langchain_errors
from langchain_podium.workers.commands import artifact_data, command_completion, documents_data, is_command
from podium.errors import ConfigError, ToolFailed
from podium.hosts import ToolWorker
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card, Request, Worker, step_input_of


class LangChainTool(ToolWorker):
    """Calls a LangChain tool."""

    is_interruptible = True
    interrupts = False
    """Whether the tool is known to call `interrupt()`."""

    def __init__(self, tool: BaseTool, *, card: Card) -> None:
        schema = tool.args_schema
        model = schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None
        super().__init__(_schema(tool), self._run, card=card, model=model)
        self._tool = tool
        self._node = _injecting_node(tool)
        annotations = get_all_basemodel_annotations(tool.get_input_schema()).values()
        self._takes_id = any(_is_injected_arg_type(each, InjectedToolCallId) for each in annotations)

    def check_host(self) -> None:
        """Check that the graph around has what the tool reads of it, and can wait if the tool interrupts."""
        if self.interrupts:
            check_checkpointer(self.card.name)
        if self._node is None:
            return
        told, graph = f"tool {self.card.name!r}", around()
        if graph is None:
            raise ConfigError(
                f"{told} reads the state or the store of a graph, and the run is in no graph: run its "
                "conductor in a node, with conductor_node(...) or create_conductor_agent(...)"
            )
        injected = self._node._injected_args[self._tool.name]  # noqa: SLF001 - what the node will inject
        if injected.store and graph.runtime.store is None:
            raise ConfigError(f"{told} reads the graph's store, and there is no store: compile(store=...)")
        state, optional = graph.state, injected._optional_state_args  # noqa: SLF001 - as above
        for argument, key in injected.state.items():
            if key and argument not in optional and not _has(state, key):
                raise ConfigError(f"{told} reads {key!r}, which the graph's state does not have: set it")

    async def _run(self, arguments: dict[str, Any]) -> Completion:
        tool, name, graph = self._tool, self.card.name, around()
        with langchain_errors(name, acts_first=True):
            if self._node is None and not self._takes_id and tool.response_format == "content":
                returned = await _called(tool, arguments, name)
                return self._result(returned)
            # Only a call with an id also returns the artifact.
            call = ToolCall(type="tool_call", id=uuid4().hex, name=tool.name, args=arguments)
            if self._node is None or graph is None:
                returned = await apart(tool.ainvoke(call))
            else:
                returned = await apart(_injected(self._node, call, graph))
            return self._result(returned, call["id"])

    def _result(self, returned: Any, call_id: str | None = None) -> Completion:
        name = self.card.name
        if is_command(returned):
            return command_completion(returned, name, call_id)
        if not isinstance(returned, ToolMessage):
            return _completion(returned, name)
        if returned.status == "error":
            raise ToolFailed(f"tool {name!r} failed: {str(returned.text)[:300]}", maybe_paid=True)
        if self._tool.response_format == "content" and isinstance(returned.content, list):
            return _completion(returned.content, name)  # a list of texts is a value of the tool
        content = returned.content if isinstance(returned.content, list) else [returned.content]
        made = content_completion(content, returned.artifact, name)
        return replace(made, data=artifact_data(returned.artifact))


def _injecting_node(tool: BaseTool) -> Any:
    """Return LangGraph's node for a tool that reads state, store or runtime; `None` for other tools."""
    if "langgraph.prebuilt" not in sys.modules:  # where the annotations of such tools are
        return None
    from langgraph.prebuilt import ToolNode  # noqa: PLC0415 - it is optional

    async def inject(request: Any, _: Any) -> Any:  # else ToolNode demands a message in each command
        call = node._inject_tool_args(request.tool_call, request.runtime)  # noqa: SLF001 - as below
        return await tool.ainvoke(call, request.runtime.config)

    node = ToolNode([tool], awrap_tool_call=inject, handle_tool_errors=False)
    injected = node._injected_args[tool.name]  # noqa: SLF001 - LangGraph has no public way to ask for them
    # ToolNode injects its runtime into any argument of this name, also into one that the model writes
    takes_runtime = injected.runtime in injected.all_injected_keys
    return node if injected.state or injected.store or takes_runtime else None


async def _injected(node: Any, call: ToolCall, graph: Around) -> Any:
    """Call the tool of a node, and return what the tool returned."""
    given = {"__type": "tool_call_with_context", "tool_call": call, "state": graph.state}
    returned = await node.ainvoke(given, ensure_config())
    parts = returned if isinstance(returned, list) else [returned]
    found = [one for part in parts for one in (part["messages"] if isinstance(part, dict) else [part])]
    return found if len(found) > 1 else found[0]


def _has(state: Any, key: str) -> bool:
    return key in state if isinstance(state, dict) else hasattr(state, key)


async def _called(tool: BaseTool, arguments: dict[str, Any], worker: str) -> object:
    """Call a tool that returns only content, and return the content unchanged."""
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


class RetrieverWorker(Worker):
    """Searches for the subtask; answers with the texts found, each with its source."""

    uses_tokens = False
    reads_prose = False

    def __init__(self, retriever: BaseRetriever, *, card: Card) -> None:
        self.retriever = retriever
        self.card = card

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Search for the subtask."""
        subtask = step_input_of(request).subtask
        with langchain_errors(self.card.name):
            found = await apart(self.retriever.ainvoke(subtask))
            text = cited(found)
        answer = Completion(text, data=documents_data(found))
        if not text.strip():
            answer = Completion(f"Nothing was found for: {subtask[:200]}", missing="nothing was found")
        if request.stream:
            yield answer.text
        yield answer
