"""A real Chromium that shows the viewer of a server on loopback."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright
from server.runs.conftest import Http, http, keyed, new_key, serve, served, upstream, url

__all__ = ["Http", "http", "keyed", "new_key", "serve", "served", "upstream", "url"]

_CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    if shutil.which(_CHROMIUM) is None:
        pytest.skip("these tests need Chromium: install it with `make browser`")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=_CHROMIUM, args=_OPTIONS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Open a page; an error of its scripts, or something that its policy blocks, fails the test."""
    faults: list[str] = []

    def failed(error: Error) -> None:
        faults.append(str(error))

    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    opened = context.new_page()
    opened.set_default_timeout(10_000)
    opened.on("pageerror", failed)
    opened.on("console", lambda said: "Content Security Policy" in said.text and faults.append(said.text))
    yield opened
    context.close()
    assert faults == []
