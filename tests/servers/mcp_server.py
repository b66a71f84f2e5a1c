"""An MCP server made with the high-level class of the SDK.

`python tests/servers/mcp_server.py LOG` serves on stdio, and appends its calls to the file LOG.
`with serving_mcp(make_server(LOG)) as served` of `web_thread` serves streamable HTTP at `served.url`.
"""

import base64
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from mcp.server.fastmcp import FastMCP
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import BaseModel

PIXEL = base64.b64encode(b"no real picture").decode()
READ_ONLY = ToolAnnotations.model_validate({"readOnlyHint": True})


class Found(BaseModel):
    """A place in a file."""

    path: str
    line: int


def make_server(log: Path) -> FastMCP:
    """Return the server."""
    server = FastMCP("test")

    def note(what: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{what}\n")

    _add_plain_tools(server, note)
    _add_results(server)
    _add_deaths(server, note, log)
    _add_resources(server)
    return server


def _add_plain_tools(server: FastMCP, note: Callable[[str], None]) -> None:
    @server.tool(annotations=READ_ONLY)
    def echo(text: str) -> str:
        """Say what it is told."""
        note(f"echo {text}")
        return f"You said: {text}"

    @server.tool(annotations=READ_ONLY)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def environment() -> str:
        """Return the process's variables and its id."""
        return json.dumps({**os.environ, "PID": str(os.getpid())})

    @server.tool(annotations=READ_ONLY)
    async def slow(text: str) -> str:
        """Take a long time."""
        note(f"slow {text}")
        try:
            await anyio.sleep(30)
        except BaseException:
            note("cancelled")
            raise
        return text


def _add_results(server: FastMCP) -> None:
    def result(*content: dict[str, str], **rest: Any) -> CallToolResult:
        return CallToolResult.model_validate({"content": content, **rest})

    @server.tool()
    def data() -> CallToolResult:
        """Return data that its text does not tell."""
        return result({"type": "text", "text": "done"}, structuredContent={"rows": [1, 2]})

    @server.tool(annotations=READ_ONLY)
    def found(name: str) -> list[Found]:
        """Find files."""
        return [Found(path=f"{name}.py", line=3)]

    @server.tool(annotations=READ_ONLY)
    def first(name: str) -> Found:
        """Find a file."""
        return Found(path=f"{name}.py", line=3)

    @server.tool()
    def fail(why: str) -> CallToolResult:
        """Fail."""
        return result({"type": "text", "text": f"no: {why}"}, isError=True)

    @server.tool()
    def picture(*, caption: bool) -> CallToolResult:
        """Return an image."""
        text = [{"type": "text", "text": "A pixel."}] if caption else []
        return result(*text, {"type": "image", "data": PIXEL, "mimeType": "image/png"})

    @server.tool()
    def nothing() -> CallToolResult:
        """Return nothing."""
        return result()


def _add_deaths(server: FastMCP, note: Callable[[str], None], log: Path) -> None:
    @server.tool()
    def send(text: str) -> str:
        """Send a message, and die before it is answered."""
        note(f"send {text}")
        os._exit(3)

    @server.tool(annotations=READ_ONLY)
    def look(text: str) -> str:
        """Die before it is answered, the first time."""
        note(f"look {text}")
        if log.read_text("utf-8").count("look") == 1:
            sys.stderr.write("something went wrong\n")
            sys.stderr.flush()
            os._exit(3)
        return f"Looked for {text}"


def _add_resources(server: FastMCP) -> None:
    @server.resource("notes://today", name="today", description="What is planned today.")
    def today() -> str:
        return "Water the plants."

    @server.resource("notes://{day}/{topic}", name="notes", description="Notes of a day.")
    def notes(day: str, topic: str) -> str:
        return f"{topic} on {day}"

    @server.resource("notes://seal", name="seal", mime_type="image/png")
    def seal() -> bytes:
        return b"no real picture"


if __name__ == "__main__":
    make_server(Path(sys.argv[1])).run("stdio")
