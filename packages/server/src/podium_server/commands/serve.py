"""`podium serve` over HTTP: serve the models of a config."""

import gc
import signal
import sys
from asyncio import get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import anyio
import typer

from podium.cli.screen import Screen
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium_server import __version__
from podium_server.app import App
from podium_server.commands.access import check_host, find_keys
from podium_server.commands.check import check as check_server
from podium_server.http import HttpServer, listen, url_of
from podium_server.log import configure_log, log_server
from podium_server.models import demo_config
from podium_server.settings import ServerSection

_MARKS = {"ok": "✓", "warning": "!", "error": "✗"}


def serve(
    screen: Screen, path: Path | None, *, host: str | None, port: int | None, check: bool, openapi: bool
) -> None:
    """Serve the models of a podium.toml, check it, or write the OpenAPI document."""
    with _config(screen, path) as loaded:
        settings = loaded.table("server", ServerSection) or ServerSection()
        host, port = host or settings.host, settings.port if port is None else port
        if check:
            _check(screen, loaded, host, port)
            return
        access = find_keys(loaded)
        if openapi:
            screen.result_json(App(loaded, access).openapi())
            return
        check_host(host, access)
        configure_log()
        app = App(loaded, access)
        backend = {"use_uvloop": sys.platform != "win32"}
        try:
            anyio.run(partial(_serve, screen, app, host, port), backend_options=backend)
        finally:
            gc.freeze()  # Python's last garbage collections would take up to seconds of the stop


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


async def _serve(screen: Screen, app: App, host: str, port: int) -> None:
    """Serve until a signal stops the process."""
    starting, is_serving = anyio.CancelScope(), False
    loop = get_running_loop()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        if not is_serving:  # else the server has stopped in order: uvicorn calls this at its end
            loop.call_soon_threadsafe(starting.cancel)

    signal.signal(signal.SIGTERM, stop)
    with starting, listen(host, port) as listening, _stop_logged():
        async with app.opened():
            screen.note(f"podium: serving {_names(app)} at {url_of(listening)}/v1")
            for model in app.catalogue:
                screen.warn(f"model {model.name}: {told}" for told in model.conductor.warnings)
            if not app.has_keys:
                screen.note(
                    "podium: there are no API keys, so only programs of this machine can use the server"
                )
            models = ",".join(model.name for model in app.catalogue)
            facts = {"url": url_of(listening), "models": models, "keys": app.has_keys}
            log_server("started", version=__version__, **facts)
            is_serving = True
            await HttpServer(app.asgi(), app.settings, app.stop).serve([listening])


@contextmanager
def _stop_logged() -> Iterator[None]:
    try:
        yield
    finally:
        log_server("stopped")


def _names(app: App) -> str:
    return ", ".join(model.name for model in app.catalogue)


def _check(screen: Screen, config: Config, host: str, port: int) -> None:
    """Show what the server would serve and what it lacks; exit with 1 if it cannot start."""
    found = check_server(config, host, port)
    for finding in found:
        screen.result(f"{_MARKS[finding.level]} {finding.told}")
    screen.note("podium: no model was called: `podium check` calls each worker once")
    if any(finding.level == "error" for finding in found):
        raise typer.Exit(1)
