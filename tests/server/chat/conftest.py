"""A server whose models are scripted."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving

CONFIG = """
[endpoints.here]
base_url = "{url}"

[workers.one]
endpoint = "here"
model = "one"
description = "Answers anything."
price = {{ input = 1.0, output = 2.0 }}

[workers.two]
endpoint = "here"
model = "two"
description = "Writes poems."
price = {{ input = 10.0, output = 20.0 }}

[planner]
endpoint = "here"
model = "planner"
price = {{ input = 1.0, output = 2.0 }}

[journal]
path = "runs.db"

[server]
{server}

{models}
"""


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers; a test sets `reply`."""
    with ChatServer(lambda call: None).in_thread() as server:  # type: ignore[arg-type,return-value]
        yield server


@pytest.fixture
def serve(upstream: ChatServer, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Return a function that serves the config with tables of a test."""
    with ExitStack() as stack:

        def start(*, models: str = "", server: str = "", planner: str = "") -> Served:
            text = CONFIG.format(url=upstream.url, models=models, server=server)
            text = text.replace("[planner]", f"[planner]\n{planner}")
            return stack.enter_context(serving(text, tmp_path))

        yield start


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """Serve the config without tables of its own."""
    return serve()


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve the config once for all requests of a module that are refused before any model is called."""
    text = CONFIG.format(url="http://127.0.0.1:9/v1", models="", server="")
    with serving(text, tmp_path_factory.mktemp("refusing")) as server:
        yield server
