"""`podium serve`: serve over HTTP, which is in podium-server, or to MCP clients."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer

from podium.cli.arguments import ConfigPath, exclude
from podium.cli.screen import Screen, reporting
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.config.add_ons import load_part
from podium.errors import ConfigError

_HOST, _PORT = "127.0.0.1", 8000


def serve(  # noqa: PLR0913 - one parameter for each argument and option
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: [server] host, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on; 0 for any. Default: [server] port, or 8000."),
    ] = None,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve MCP clients: on stdio, or with --host or --port at /mcp.")
    ] = False,
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --mcp: the environment variable with the key that clients must send."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration, say what is missing, and exit.")
    ] = False,
    openapi: Annotated[
        bool, typer.Option("--openapi", help="Write the OpenAPI document of the server, and exit.")
    ] = False,
    config: ConfigPath = None,
) -> None:
    """Serve the conductor over HTTP, or to MCP clients.

    HTTP has all models of a podium.toml, for clients of OpenAI's API and others. Without a podium.toml, the
    command serves a demo that needs no model, key or network.

    With --mcp, clients get the tools ask, plan and run_plan of one conductor.
    """
    with reporting() as screen:
        if mcp:
            exclude("--mcp", {"--check": check, "--openapi": openapi})
            _serve_mcp(screen, config, host, port, key_env)
        elif key_env is not None:
            raise ConfigError("--key-env needs --mcp: `podium keys` makes the keys of other clients")
        else:
            load_part("serve")(screen, config, host=host, port=port, check=check, openapi=openapi)


def _serve_mcp(
    screen: Screen, config: Path | None, host: str | None, port: int | None, key_env: str | None
) -> None:
    from podium.mcp import serve_http, serve_stdio  # noqa: PLC0415 - jsonschema is slow to import

    is_http = host is not None or port is not None
    if key_env is not None and not is_http:
        raise ConfigError("--key-env needs --host or --port: a client on stdio has no key")
    key = None if key_env is None else os.environ.get(key_env, "").strip()
    if key == "":
        raise ConfigError(f"the environment variable {key_env} is not set: run `export {key_env}=...`")
    conductor = load_config(find_config(config)).conductor()
    if isinstance(conductor, Conductor):
        screen.warn(conductor.warnings)
    if is_http:
        port = _PORT if port is None else port
        anyio.run(partial(serve_http, conductor, host=host or _HOST, port=port, key=key))
    else:
        anyio.run(serve_stdio, conductor)  # stdout carries the protocol only
