"""Wraps the server of the MCP SDK, for versions 1 (`FastMCP`) and 2 (`MCPServer`)."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from podium.mcp.sdk import sdk_version

_MODERN = "2026-07-28"
"""The first version of the protocol in which a server sends no requests."""


def new_server(
    name: str,
    *,
    instructions: str,
    host: str,
    lifespan: Callable[[Any], AbstractAsyncContextManager[None]],
    is_stateless: bool = False,
) -> Any:
    """Return a server without tools.

    Args:
        name: the server's name.
        instructions: its description for clients.
        host: the host on which it listens, if it serves HTTP; on loopback, requests for other hosts fail.
        lifespan: a context manager that is entered while the server runs.
        is_stateless: whether HTTP requests have no session.
    """
    settings: dict[str, Any] = {"instructions": instructions, "lifespan": lifespan, "log_level": "WARNING"}
    with _logging_kept():
        if sdk_version() < 2:
            settings["stateless_http"] = is_stateless
            return import_module("mcp.server.fastmcp").FastMCP(name, host=host, **settings)
        return import_module("mcp.server.mcpserver").MCPServer(name, **settings)


def close_schemas(server: Any) -> None:
    """Make unknown arguments of a server's tools an error; by default the SDK ignores them."""
    for tool in server._tool_manager.list_tools():  # noqa: SLF001 - the SDK has no public API for this
        model = tool.fn_metadata.arg_model
        model.model_config["extra"] = "forbid"
        model.model_rebuild(force=True)
        tool.parameters = model.model_json_schema(by_alias=True)


def http_app(server: Any, host: str, *, is_stateless: bool = False) -> Any:
    """Return the ASGI application that serves streamable HTTP at `/mcp`."""
    if sdk_version() < 2:
        return server.streamable_http_app()
    return server.streamable_http_app(host=host, stateless_http=is_stateless)


def add_tool(server: Any, tool: Callable[..., Awaitable[Any]], annotations: Any) -> None:
    """Add a method as a tool; the SDK passes the context to its argument `context`."""
    function: Any = getattr(tool, "__func__")  # noqa: B009 - mypy rejects the attribute
    function.__annotations__["context"] = context_class()
    server.add_tool(tool, annotations=annotations, structured_output=False)


def context_class() -> type[Any]:
    """Return the class of the context that the SDK passes to tools."""
    module = "mcp.server.fastmcp" if sdk_version() < 2 else "mcp.server.mcpserver"
    found: type[Any] = import_module(module).Context
    return found


def tool_annotations(hints: Mapping[str, bool]) -> Any:
    """Convert hints to the SDK's annotations of a tool."""
    return import_module("mcp.types").ToolAnnotations.model_validate(dict(hints))


def call_tool_result(wire: Mapping[str, Any]) -> Any:
    """Return the SDK's result of a tool, from JSON data."""
    return import_module("mcp.types").CallToolResult.model_validate(dict(wire))


class Elicitation:
    """Asks the user of the client that called a tool.

    In protocol versions until 2025, the server sends a request and waits for the answer. From 2026 on, the
    call returns the question, and the client repeats the call with the answer.

    Args:
        context: the call's context.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def is_supported(self) -> bool:
        """Whether the client can ask its user."""
        if sdk_version() < 2:
            params = self._context.session.client_params
            capabilities = None if params is None else params.capabilities
        else:
            capabilities = self._context.client_capabilities
        return capabilities is not None and capabilities.elicitation is not None

    @property
    def repeats_calls(self) -> bool:
        """Whether the client repeats the call with the answer."""
        return sdk_version() >= 2 and str(self._context.protocol_version) >= _MODERN

    async def ask(self, message: str, form: type[BaseModel]) -> tuple[str, BaseModel | None]:
        """Ask the user, and return the action (`accept`, `decline` or `cancel`) and the filled form."""
        answer = await self._context.elicit(message, form)
        return answer.action, getattr(answer, "data", None)

    def asking(self, message: str, form: type[BaseModel], state: str) -> Any:
        """Return a result that makes the client ask its user and repeat the call.

        Args:
            message: the question.
            form: the form for the answer.
            state: a text that the client returns with the answer; the SDK protects it against changes.
        """
        types = import_module("mcp_types")
        params = {"mode": "form", "message": message, "requestedSchema": form.model_json_schema()}
        request = types.ElicitRequest.model_validate({"method": "elicitation/create", "params": params})
        return types.InputRequiredResult(input_requests={_KEY: request}, request_state=state)

    def answered(self, form: type[BaseModel]) -> tuple[str, str, BaseModel | None] | None:
        """Return the state, the action and the filled form of a repeated call; `None` for a first call."""
        if sdk_version() < 2 or not (state := self._context.request_state):
            return None
        answer = (self._context.input_responses or {}).get(_KEY)
        action = str(getattr(answer, "action", "cancel"))
        content = getattr(answer, "content", None)
        return state, action, form.model_validate(content) if action == "accept" else None


_KEY = "approval"
"""The key of the question."""


@contextmanager
def _logging_kept() -> Iterator[None]:
    """Keep the SDK from configuring the logging of the application, which it does if nobody has."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


_ANY_HOST = "0.0.0.0"  # noqa: S104 - the SDK then accepts requests to all hosts; it does not listen


class ToolCall:
    """A call of a tool.

    Args:
        context: the argument `context` of the tool, an object of the SDK.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    @property
    def scope(self) -> Mapping[str, Any]:
        """The ASGI scope of the HTTP request."""
        scope: Mapping[str, Any] = self._context.request_context.request.scope
        return scope

    async def report(self, number: int, message: str) -> None:
        """Tell the client about the progress of the call.

        Args:
            number: grows with each message.
            message: the message.
        """
        await self._context.report_progress(number, None, message)

    def result(self, wire: Mapping[str, Any]) -> Any:
        """Return the result of the tool, from JSON data with the names of MCP."""
        return call_tool_result(wire)


class ToolServer:
    """An MCP server with tools, over streamable HTTP at the path `/mcp`, without sessions.

    Each request has its own server, so that clients share nothing. A client that disconnects cancels its
    call. The application that calls `app` checks the host and the caller.

    Args:
        name: the server's name.
        instructions: its description for clients.

    Raises:
        ConfigError: the SDK is not installed.
    """

    def __init__(self, name: str, *, instructions: str) -> None:
        self._server = new_server(
            name, instructions=instructions, host=_ANY_HOST, lifespan=_nothing, is_stateless=True
        )

    def add(self, tool: Callable[..., Awaitable[Any]], *, reads_only: bool) -> None:
        """Add a tool.

        Args:
            tool: a method with an argument `context` for `ToolCall`; its other arguments and its docstring
                describe the tool to clients. It returns `ToolCall.result`.
            reads_only: whether a call of the tool changes nothing outside.
        """
        add_tool(self._server, tool, tool_annotations({"readOnlyHint": reads_only}))

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Any, None]:
        """Run the server in the block, and yield the ASGI application. It can be opened once."""
        close_schemas(self._server)
        app = http_app(self._server, _ANY_HOST, is_stateless=True)
        async with app.router.lifespan_context(app):
            yield app


def _nothing(_: Any) -> AbstractAsyncContextManager[None]:
    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None, None]:
        yield

    return lifespan()
