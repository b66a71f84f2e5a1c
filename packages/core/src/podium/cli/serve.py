"""`podium serve`: serve over HTTP, which is in podium-server, or to an MCP client."""

from typing import Annotated

import anyio
import typer

from podium.cli.arguments import ConfigPath, exclude
from podium.cli.screen import reporting
from podium.config import find_config, load_config
from podium.config.add_ons import load_part


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: [server] host, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on; 0 for any. Default: [server] port, or 8000."),
    ] = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="Serve the MCP client at stdin and stdout.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration, say what is missing, and exit.")
    ] = False,
    openapi: Annotated[
        bool, typer.Option("--openapi", help="Write the OpenAPI document of the server, and exit.")
    ] = False,
    config: ConfigPath = None,
) -> None:
    """Serve the conductor over HTTP, or to an MCP client.

    HTTP has all models of a podium.toml, for clients of OpenAI's API, MCP and others. Without a podium.toml,
    the command serves a demo that needs no model, key or network.

    With --mcp, a client gets the tools of one conductor.
    """
    with reporting() as screen:
        if not mcp:
            load_part("serve")(screen, config, host=host, port=port, check=check, openapi=openapi)
            return
        exclude("--mcp", {"--host": host, "--port": port, "--check": check, "--openapi": openapi})
        from podium.mcp.server import serve_stdio  # noqa: PLC0415 - jsonschema is slow to import

        conductor = load_config(find_config(config)).conductor()
        screen.warn(conductor.warnings)
        anyio.run(serve_stdio, conductor)  # stdout carries the protocol only
