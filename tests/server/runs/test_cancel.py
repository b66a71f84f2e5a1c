"""Runs of open requests are cancelled over the runs API, in the same process and in another."""

import threading
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, ended, post, process, stalled, team, until
from servers.chat_server import ChatServer
from servers.podium_server import Served


def running_id(client: httpx2.Client) -> str:
    """Wait for a run that is running, and return its id."""
    found: list[Any] = []
    assert until(lambda: found.extend(client.get("/runs?status=running").json()["data"]) or found)
    run_id: str = found[0]["id"]
    return run_id


def failing(url: str, **options: Any) -> "tuple[threading.Thread, list[openai.APIError]]":
    """Ask a question in a thread, and collect the error."""
    errors: list[openai.APIError] = []

    def ask() -> None:
        with (
            openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client,
            pytest.raises(openai.APIError) as caught,
        ):
            list(client.chat.completions.create(model="podium", messages=ASKED, **options))
        errors.append(caught.value)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, errors


@pytest.mark.parametrize("stream", [False, True])
def test_in_the_same_process(served: Served, upstream: ChatServer, *, stream: bool) -> None:
    """The client gets an error, the call of the worker is closed, and the run can be resumed."""
    upstream.reply = stalled
    thread, errors = failing(served.url, stream=stream)
    client = served.http()
    assert until(lambda: len(upstream.calls) == 3)
    run_id = running_id(client)
    assert post(client, run_id, "cancel", 200)["status"] == "stopped"
    cost = client.get(f"/runs/{run_id}").json()["cost"]
    assert {run["id"]: run["cost"] for run in client.get("/runs").json()["data"]}[run_id] == cost
    assert cost > 2 * (211 * 1.0 + 7 * 2.0) / 1e6
    thread.join(20)
    assert errors[0].code == "run_cancelled"
    assert stream or (isinstance(errors[0], openai.ConflictError))
    assert until(upstream.calls[-1].hung_up.is_set)
    upstream.reply = team
    post(client, run_id, "resume")
    assert ended(client, run_id)["answer"] == "the answer"


@pytest.mark.long
@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_in_another_process(folder: Path, upstream: ChatServer) -> None:
    """The process that answers the request sees it in the shared table."""
    upstream.reply = stalled
    with process(folder) as first, process(folder) as second:
        thread, errors = failing(first.url)
        assert until(lambda: len(upstream.calls) == 3)
        with httpx2.Client(base_url=second.url, timeout=30) as client:
            assert post(client, running_id(client), "cancel", 200)["status"] == "stopped"
        thread.join(20)
        assert errors[0].code == "run_cancelled"
