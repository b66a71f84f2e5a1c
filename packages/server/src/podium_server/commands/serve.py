"""`podium serve`: serve the models of a config."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

import anyio
import typer

from podium.cli import EXIT_CODES, ConfigPath, Screen, reporting
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium_server.app import App
from podium_server.commands.check import check as check_app
from podium_server.http import HttpServer, is_loopback, listen, url_of
from podium_server.keys import KeyAccess, KeyStore
from podium_server.models import demo_config
from podium_server.settings import ServerSection

serve = typer.Typer(add_completion=False, rich_markup_mode=None)


@serve.command(name="serve", epilog=EXIT_CODES)
def run(
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: [server] host, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to listen on; 0 for any. Default: [server] port, or 8000."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration, say what is missing, and exit.")
    ] = False,
    config: ConfigPath = None,
) -> None:
    """Serve the models of a podium.toml to clients of OpenAI's API.

    Without a podium.toml, the command serves a demo that needs no model, key or network.
    """
    with reporting() as screen, _config(screen, config) as loaded:
        settings = loaded.table("server", ServerSection) or ServerSection()
        host, port = host or settings.host, settings.port if port is None else port
        access = find_keys(loaded)
        if access is None and not is_loopback(host):
            told = f"{host} can be reached from other machines, and the server has no API keys"
            raise ConfigError(f"{told}: create one with `podium keys create NAME`, or listen on 127.0.0.1")
        app = App(loaded, access)
        if check:
            _check(screen, app, host, port)
            return
        backend = {"use_uvloop": sys.platform != "win32"}
        anyio.run(partial(_serve, screen, app, host, port), backend_options=backend)


@contextmanager
def _config(screen: Screen, path: Path | None) -> Iterator[Config]:
    """Yield the config; the demo's, if there is none and none is named."""
    try:
        found = find_config(path)
    except ConfigError:
        screen.note("podium: there is no podium.toml: serving the offline demo (`podium init` writes one)")
        with demo_config() as demo:
            screen.note(f"podium: {demo.path.parent} has its files and its runs until the server stops")
            yield demo
        return
    yield load_config(found)


def find_keys(config: Config) -> KeyAccess | None:
    """Return the keys in the database of the config's journal; `None` if there are none.

    A revoked or expired key counts too: the server never opens because its last key has ended.

    Raises:
        JournalError: the database cannot be used.
    """
    journal = config.journal()
    if journal is None:
        return None
    store = KeyStore.beside(journal)
    if not anyio.run(store.keys):
        return None
    return KeyAccess(store, journal=None if config.is_hosted else journal)


async def _serve(screen: Screen, app: App, host: str, port: int) -> None:
    """Serve until a signal stops the process."""
    signal.signal(signal.SIGTERM, _stopped)  # uvicorn calls it after it has stopped
    with listen(host, port) as listening:
        async with app.opened():
            screen.note(f"podium: serving {_names(app)} at {url_of(listening)}/v1")
            if not app.has_keys:
                screen.note(
                    "podium: there are no API keys, so only programs of this machine can use the server"
                )
            # In a task group of `opened`, the exit would be part of an exception group.
            with suppress(SystemExit):
                await HttpServer(app.asgi(), app.settings).serve([listening])


def _stopped(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise SystemExit(0)


def _names(app: App) -> str:
    return ", ".join(model.name for model in app.catalogue)


def _check(screen: Screen, app: App, host: str, port: int) -> None:
    """Show what the server would serve and what it lacks; exit with 1 if it cannot start."""
    found = anyio.run(check_app, app, host, port)
    for finding in found:
        screen.result(f"{'✓' if finding.ok else '✗'} {finding.told}")
    screen.note("podium: no model was called: `podium check` calls each worker once")
    if not all(finding.ok for finding in found):
        raise typer.Exit(1)
