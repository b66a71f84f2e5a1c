"""`podium show --open`: show a recorded run in a browser, without a server that executes runs."""

import html
import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import anyio
import anyio.to_thread

from podium.cli.arguments import find_run, look
from podium.cli.screen import Screen
from podium.conductor import CARD
from podium.config import find_config, load_config
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium_server.http import HttpServer, listen, url_of
from podium_server.models import Catalogue, ServedModel, make_catalogue
from podium_server.viewer.reader import Reader

_HOST = "127.0.0.1"
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={url}">
<title>Podium</title>
"""


def open_run(screen: Screen, config: Path | None, journal: SqlJournal, run: str, *, browser: bool) -> None:
    """Show the run whose id begins with `run`, until Ctrl-C; without `browser`, only write the address."""
    run_id = look(journal, lambda: find_run(journal, run)).run_id
    anyio.run(_serve, screen, Reader(journal, _models(screen, config)), run_id, browser)


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


async def _serve(screen: Screen, reader: Reader, run_id: str, has_browser: bool) -> None:  # noqa: FBT001 - anyio.run passes it by position
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
