"""Serves a config in a thread, for notebooks and tests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio

from podium.config import Config
from podium_server.app import App
from podium_server.http import HttpServer, listen, url_of
from podium_server.keys import Access


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
