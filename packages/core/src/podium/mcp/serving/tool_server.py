"""An MCP server with tools, for applications that serve HTTP themselves."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from podium.mcp.serving.sdk_server import (
    add_tool,
    call_tool_result,
    close_schemas,
    http_app,
    new_server,
    tool_annotations,
)

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
