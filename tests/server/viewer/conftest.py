"""A real Chromium that shows the viewer of a server on loopback."""

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from server.scene import Serve, ended, start as begin
from servers.chat_server import Pause, Reply, chunk, events
from servers.podium_server import Served

_CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
_UNNEEDED = ("gpu", "background-networking", "component-update", "sync")
_OPTIONS = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in _UNNEEDED)]
expect.set_options(timeout=20_000)  # beside other work, Chromium may need seconds to read a long run
STEPS = [
    {"worker": "one", "subtask": "Collect facts.", "access": []},
    {"worker": "one", "subtask": "Collect doubts.", "access": []},
    {"worker": "two", "subtask": "Write the answer.", "access": [0]},
]


@pytest.fixture(scope="module")  # while it is open, tests in this thread cannot run an event loop
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    if shutil.which(_CHROMIUM) is None:
        pytest.skip("these tests need Chromium: install it with `make browser`")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=_CHROMIUM, args=_OPTIONS)
        yield started
        started.close()


@pytest.fixture
def faults() -> list[str]:
    """Return the errors of the page so far; a test that causes a refusal clears the list."""
    return []


@pytest.fixture
def page(browser: Browser, faults: list[str]) -> Iterator[Page]:
    """Open a page; an error of its scripts or in its console fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: said.type == "error" and faults.append(said.text))
    yield page
    context.close()
    assert faults == []


def start(client: httpx2.Client, query: str = "Why is the sky blue?", **options: Any) -> str:
    """Start a run, and return its id."""
    return str(begin(client, query=query, **options)["id"])


def opened(served: Served, page: Page, place: str = "", **options: Any) -> str:
    """Start a run, open its page when it has ended or waits for somebody, and return its id."""
    client = served.http()
    run_id = start(client, **options)
    ended(client, run_id)
    page.goto(f"{served.root}/#/runs/{run_id}{place}")
    return run_id


def in_halves(first: str, second: str, may_end: threading.Event) -> Reply:
    """Return a streamed answer whose second half waits for an event."""
    *head, _ = events(chunk({"role": "assistant", "content": first}), done=False).parts
    tail = events(chunk({"content": second}), chunk({}, finish_reason="stop"), done=True).parts

    def parts() -> Any:
        yield from head
        while not may_end.is_set():
            yield Pause(0.02)
        yield from list(tail)[1:]

    return Reply(parts())


@pytest.fixture
def served(serve: Serve) -> Served:
    """Return a server without runs."""
    return serve()


@pytest.fixture
def keyed(serve: Serve) -> Served:
    """Return a server with keys, without runs."""
    return serve(keys=True)
