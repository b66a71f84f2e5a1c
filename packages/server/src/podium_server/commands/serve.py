"""Serves a config: `podium serve` over HTTP, in a thread, and `podium show --open` for recorded runs."""

import gc
import html
import signal
import sys
import threading
import webbrowser
from asyncio import get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from urllib.parse import quote

import anyio
import anyio.to_thread
import typer

from podium.cli.arguments import find_run, look
from podium.cli.screen import Screen
from podium.conductor import CARD
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium_server import __version__
from podium_server.app import App
from podium_server.commands.check import check as check_server, check_host, find_keys
from podium_server.http import HttpServer, listen, url_of
from podium_server.keys import Access
from podium_server.models import Catalogue, ServedModel, demo_config, make_catalogue
from podium_server.record import configure_log, log_server
from podium_server.settings import ServerSection
from podium_server.viewer.viewer import Reader

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
        access, _ = find_keys(loaded)
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
    names = [model.name for model in app.catalogue]
    with starting, listen(host, port) as listening:
        try:
            async with app.opened():
                url = url_of(listening)
                screen.note(f"podium: serving {', '.join(names)} at {url}/v1")
                for model in app.catalogue:
                    screen.warn(f"model {model.name}: {told}" for told in model.conductor.warnings)
                if not app.has_keys:
                    told = "there are no API keys, so only programs of this machine can use the server"
                    screen.note(f"podium: {told}")
                facts = {"url": url, "models": ",".join(names), "keys": app.has_keys}
                log_server("started", version=__version__, **facts)
                is_serving = True
                gc.freeze()  # what the start has made stays: no collection needs to look at it
                await HttpServer(app.asgi(), app.settings, app.stop).serve([listening])
        finally:
            log_server("stopped")


def _check(screen: Screen, config: Config, host: str, port: int) -> None:
    """Show what the server would serve and what it lacks; exit with 1 if it cannot start."""
    found = check_server(config, host, port)
    for finding in found:
        screen.result(f"{_MARKS[finding.level]} {finding.told}")
    screen.note("podium: no model was called: `podium check` calls each worker once")
    if any(finding.level == "error" for finding in found):
        raise typer.Exit(1)


@contextmanager
def serve_in_thread(config: Config, *, port: int = 0, access: Access | None = None) -> Iterator[str]:
    """Serve the models of a config on 127.0.0.1 in the block, and yield the base URL for clients.

    At the end of the block, running requests are cancelled after `[server] drain_seconds`.

    Args:
        config: the config.
        port: the port; 0 for any free port.
        access: admits requests; `None` admits all programs of this machine.

    Raises:
        ConfigError: the config or the port cannot be used.
        JournalError: the journal cannot be opened.
    """
    app = App(config, access)
    failures: list[Exception] = []
    is_ready = threading.Event()
    with listen("127.0.0.1", port) as listening:
        url = f"{url_of(listening)}/v1"
        server = HttpServer(app.asgi(), app.settings, app.stop)

        async def serve() -> None:
            try:
                async with app.opened():
                    is_ready.set()
                    await server.serve([listening])
            except Exception as error:  # noqa: BLE001 - raised in the thread of the caller
                failures.append(error)
            finally:
                is_ready.set()

        thread = threading.Thread(target=partial(anyio.run, serve), name="podium-server")
        thread.start()
        is_ready.wait()
        try:
            if not failures:
                yield url
        finally:
            server.should_exit = True
            thread.join()
    if failures:
        raise failures[0]


_HOST = "127.0.0.1"
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={url}">
<title>Podium</title>
"""


def open_run(screen: Screen, config: Path | None, journal: SqlJournal, run: str, *, browser: bool) -> None:
    """Show the run whose id begins with `run`, until Ctrl-C; without `browser`, only write the address."""
    run_id = look(journal, lambda: find_run(journal, run)).run_id
    anyio.run(_serve_reader, screen, Reader(journal, _models(screen, config)), run_id, browser)


def _models(screen: Screen, path: Path | None) -> Catalogue:
    """Return the conductor of the commands and the models of the config; none if they cannot be built."""
    told = "podium: the prompts of steps are not shown"
    try:
        config = load_config(find_config(path))
        if not config.connects:
            conductor = config.conductor(journaled=False)
            of_commands = ServedModel(name=CARD.name, version="", conductor=conductor, created=0)
            return Catalogue([of_commands, *make_catalogue(config, None)])
        screen.note(f"{told}: the config has MCP servers or remote agents, which this command does not start")
    except ConfigError as error:
        screen.note(f"{told}: {error}")
    return Catalogue([])


async def _serve_reader(screen: Screen, reader: Reader, run_id: str, has_browser: bool) -> None:  # noqa: FBT001 - anyio.run passes it by position
    """Serve the viewer until a signal stops the process."""
    signal.signal(
        signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT)
    )  # so that the file is deleted
    with listen(_HOST, 0) as listening:
        url = url_of(listening) + reader.path(quote(run_id, safe=""))
        async with reader.opened(), anyio.create_task_group() as tasks:
            screen.secret(url)
            screen.note("podium: Ctrl-C ends the viewer")
            with _redirecting(url) as page:
                if has_browser:
                    tasks.start_soon(_browse, screen, page)
                await HttpServer(reader.asgi(), reader.settings, reader.stop).serve([listening])


@contextmanager
def _redirecting(url: str) -> Iterator[str]:
    """Yield the address of a file that leads to a URL, and that only this user can read.

    Other users can read the arguments of a browser's process, and would find the token there.
    """
    with TemporaryDirectory(prefix="podium-open-", ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "open.html"
        page.write_text(_PAGE.format(url=html.escape(url)), encoding="utf-8")
        yield page.as_uri()


async def _browse(screen: Screen, page: str) -> None:
    if not await anyio.to_thread.run_sync(webbrowser.open, page, abandon_on_cancel=True):
        screen.note("podium: no browser was found: open the address above")
