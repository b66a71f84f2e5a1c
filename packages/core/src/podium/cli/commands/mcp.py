"""`podium mcp`: serve the conductor of a config as an MCP server."""

import os
from functools import partial
from typing import Annotated

import anyio
import typer

from podium.cli.arguments import ConfigPath
from podium.cli.screen import reporting
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.errors import ConfigError


def mcp(
    *,
    config: ConfigPath = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve streamable HTTP at /mcp. Default: stdio."),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --http: the environment variable with the key that clients must send."
        ),
    ] = None,
) -> None:
    """Serve the conductor to MCP clients, on stdio or over HTTP.

    Clients get the tools ask, plan and run_plan. Messages go to stderr; stdout carries the protocol only.
    """
    with reporting() as screen:
        from podium.mcp import serve_http, serve_stdio  # noqa: PLC0415 - jsonschema is slow to import

        key = None if key_env is None else _key(key_env, http)
        place = None if http is None else _place(http)
        conductor = load_config(find_config(config)).conductor()
        if isinstance(conductor, Conductor):
            screen.warn(conductor.warnings)
        if place is None:
            anyio.run(serve_stdio, conductor)
        else:
            host, port = place
            anyio.run(partial(serve_http, conductor, host=host, port=port, key=key))


def _place(text: str) -> tuple[str, int]:
    """Parse HOST:PORT; an IPv6 address must be in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ConfigError(f"--http {text!r} is not HOST:PORT, as in 127.0.0.1:8400")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _key(variable: str, http: str | None) -> str:
    if http is None:
        raise ConfigError("--key-env needs --http: a client on stdio has no key")
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ConfigError(f"the environment variable {variable} is not set: run `export {variable}=...`")
    return value
