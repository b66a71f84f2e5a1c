"""The end user whom a client names, in each API."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from server.scene import ASKED
from servers.podium_server import Served


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"messages": ASKED, "user": "u-7"}),
        ("/chat/completions", {"messages": ASKED, "safety_identifier": "u-7", "user": "other"}),
        ("/responses", {"input": "Why?", "user": "u-7"}),
        ("/messages", {"messages": ASKED, "metadata": {"user_id": "u-7"}, "max_tokens": 100}),
    ],
)
def test_the_record_of_a_run_names_the_user(path: str, body: Any, serve: Callable[..., Served]) -> None:
    """Of the request, so that an audit finds who asked behind a gateway with one key."""
    served = serve()
    answer = httpx2.post(served.url + path, json={"model": "podium", **body}, timeout=20)
    run_id = answer.headers["x-podium-run-id"]
    assert httpx2.get(f"{served.url}/runs/{run_id}").json()["user"] == "u-7"
