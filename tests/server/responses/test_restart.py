"""Responses in the background survive the end of their process: another process or the next start goes on."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from server.responses.test_background import stalls
from server.responses.test_responses import ASKED
from server.scene import process, team, until
from servers.chat_server import ChatServer

pytestmark = pytest.mark.long


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers; the last worker never answers."""
    with ChatServer(stalls).in_thread() as server:
        yield server


def client_of(running: Any, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=running.url, api_key=key, max_retries=0, timeout=20)


def begun(client: openai.OpenAI, upstream: ChatServer, **options: Any) -> str:
    """Begin a response, and return its id when its last worker is called."""
    before = len(upstream.calls)
    response = client.responses.create(model="podium", input=ASKED, background=True, **options)
    assert until(lambda: len(upstream.calls) == before + 3)
    return response.id


def models(upstream: ChatServer) -> list[str]:
    return [call.body["model"] for call in upstream.calls]


@pytest.mark.parametrize("url", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
def test_a_killed_process(folder: Path, upstream: ChatServer) -> None:
    with process(folder) as running, client_of(running) as client:
        response_id = begun(client, upstream)
        events: list[Any] = []
        with client.responses.retrieve(response_id, stream=True) as stream:
            for event in stream:
                events.append(event)
                if "Step 0: ok" in getattr(event, "delta", ""):
                    break
        os.kill(running.pid, signal.SIGKILL)
        running.wait(10)
    upstream.reply = team
    with process(folder) as running, client_of(running) as client:
        last = events[-1].sequence_number
        events += client.responses.retrieve(response_id, stream=True, starting_after=last)
        answer = client.responses.retrieve(response_id)
    assert models(upstream) == ["planner", "one", "two", "two"]
    assert (answer.status, answer.output_text) == ("completed", "the answer")
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.usage is not None
    assert answer.usage.total_tokens > 3 * 218  # the call that was killed may have been paid for
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events].count("response.in_progress") == 1
    assert events[-1].response == answer
