"""Responses in the background: they go on without their client, and after the end of their process."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import openai
import pytest
from server.responses.test_responses import ASKED
from server.scene import Serve, both, called, process, stalled, team, until
from servers.chat_server import Call, ChatServer, Reply
from servers.podium_server import Served

ENDED = ("completed", "incomplete", "failed", "cancelled")


def ended(client: openai.OpenAI, response_id: str) -> Any:
    """Return a response when it has ended."""
    assert until(lambda: client.responses.retrieve(response_id).status in ENDED)
    return client.responses.retrieve(response_id)


def test_a_stream_that_disconnects(served: Served, upstream: ChatServer) -> None:
    released = threading.Event()

    def reply(call: Call) -> Reply:
        if call.body["model"] == "two":
            assert released.wait(10)
        return team(call)

    upstream.reply = reply
    client = served.client()
    stream = client.responses.create(model="podium", input=ASKED, background=True, stream=True)
    events: list[Any] = []
    for event in stream:
        events.append(event)
        if event.type == "response.reasoning_summary_text.delta":
            break
    stream.close()
    response_id, last = events[0].response.id, events[-1].sequence_number
    threading.Timer(0.1, released.set).start()
    events += client.responses.retrieve(response_id, stream=True, starting_after=last)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == "the answer"
    assert called(upstream) == ["planner", "one", "two"]


def test_a_cancelled_response(served: Served, upstream: ChatServer) -> None:
    upstream.reply = stalled
    client = served.client()
    begun = client.responses.create(model="podium", input=ASKED, background=True)
    assert until(lambda: len(upstream.calls) == 3)
    cancelled = client.responses.cancel(begun.id)
    assert until(upstream.calls[-1].hung_up.is_set)
    *_, last = client.responses.retrieve(begun.id, stream=True)
    ends = (cancelled.status, last.type, last.response.status)
    assert ends == ("cancelled", "response.incomplete", "cancelled")
    assert client.responses.cancel(begun.id) == cancelled == client.responses.retrieve(begun.id)
    begun = client.responses.create(model="podium", input=ASKED, background=True)
    assert until(lambda: len(upstream.calls) == 6)
    client.responses.delete(begun.id)  # is cancelled before
    assert until(upstream.calls[-1].hung_up.is_set)
    for call in (client.responses.retrieve, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            call(begun.id)


def test_a_plan_that_waits_in_an_open_request(serve: Serve) -> None:
    """The request gets an error; its response is in progress until somebody decides, as its run is."""
    client = serve(models='[policy]\napprove = "later"').client()
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.create(model="podium", input=ASKED)
    response_id = f"resp_{caught.value.response.headers['x-podium-run-id']}"
    assert client.responses.retrieve(response_id).status == "in_progress"
    client.post(f"/runs/{response_id.removeprefix('resp_')}/approve", body={}, cast_to=object)
    answer = ended(client, response_id)
    assert (answer.status, answer.output_text) == ("completed", "the answer")


def client_of(running: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=running.url, api_key="none", max_retries=0, timeout=20)


@pytest.mark.long
@both
def test_a_killed_process(folder: Path, upstream: ChatServer) -> None:
    upstream.reply = stalled
    with process(folder) as running, client_of(running) as client:
        response_id = client.responses.create(model="podium", input=ASKED, background=True).id
        assert until(lambda: len(upstream.calls) == 3)
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
        answer: Any = client.responses.retrieve(response_id)
    assert called(upstream) == ["planner", "one", "two", "two"]
    assert (answer.status, answer.output_text) == ("completed", "the answer")
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.usage.total_tokens > 3 * 218  # the call that was killed may have been paid for
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events].count("response.in_progress") == 1
    assert events[-1].response == answer
