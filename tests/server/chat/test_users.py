"""The end user whom a client names, in each API."""

from typing import Any

from server.scene import ASKED
from servers.podium_server import Served

BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/chat/completions", {"messages": ASKED, "user": "u-7"}),
    ("/chat/completions", {"messages": ASKED, "safety_identifier": "u-7", "user": "other"}),
    ("/responses", {"input": "Why?", "user": "u-7"}),
    ("/messages", {"messages": ASKED, "metadata": {"user_id": "u-7"}, "max_tokens": 100}),
]


def test_the_record_of_a_run_names_the_user(served: Served) -> None:
    """Of the request, so that an audit finds who asked behind a gateway with one key."""
    client = served.http()
    for path, body in BODIES:
        run_id = client.post(path, json={"model": "podium", **body}).headers["x-podium-run-id"]
        assert client.get(f"/runs/{run_id}").json()["user"] == "u-7"
