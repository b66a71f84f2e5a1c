"""Responses in the background: they go on without their client, and their events can be read at any time."""

import threading
from typing import Any

import openai
import pytest
from server.responses.test_responses import ASKED, TOOLS, fails
from server.scene import Serve, team, until
from servers.chat_server import STALL, Call, ChatServer, Pause, Reply
from servers.podium_server import Served

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.jobs.table import JobTable, new_job

ENDED = ("completed", "incomplete", "failed", "cancelled")


def ended(client: openai.OpenAI, response_id: str) -> Any:
    """Return a response when it has ended."""
    assert until(lambda: client.responses.retrieve(response_id).status in ENDED)
    return client.responses.retrieve(response_id)


def stalls(call: Call) -> Reply:
    """Reply as the team; the last worker never answers."""
    return Reply((STALL,)) if call.body["model"] == "two" else team(call)


@pytest.mark.long
def test_a_response_without_a_client(served: Served, upstream: ChatServer) -> None:
    """The request returns at once; the response is completed later, and continues a conversation."""
    upstream.reply = lambda call: Reply((Pause(0.3), *team(call).parts))
    client = served.client()
    begun = client.responses.create(model="podium", input=ASKED, background=True)
    assert begun.status in ("queued", "in_progress")
    assert begun.background is True
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="podium", input="More?", previous_response_id=begun.id)
    assert caught.value.param == "previous_response_id"
    answer = ended(client, begun.id)
    assert (answer.status, answer.output_text) == ("completed", "the answer")
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.usage.total_tokens == 3 * 218
    more = client.responses.create(model="podium", input="More?", previous_response_id=begun.id)
    assert more.output_text == "the answer"


@pytest.mark.long
def test_events_are_read_again(served: Served) -> None:
    """During the run and after its end, from the beginning and after any event."""
    client = served.client()
    with client.responses.create(model="podium", input=ASKED, background=True, stream=True) as stream:
        events: list[Any] = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert events[-1].type == "response.completed"
    response_id = events[0].response.id
    assert client.responses.retrieve(response_id) == events[-1].response
    for after in (None, 0, 3, len(events) - 2, len(events) - 1):
        options = {} if after is None else {"starting_after": after}
        again = list(client.responses.retrieve(response_id, stream=True, **options))
        assert again == events[0 if after is None else after + 1 :]
    for after in (-1, len(events), 1000):
        with pytest.raises(openai.BadRequestError, match="sequence_number") as caught:
            client.responses.retrieve(response_id, stream=True, starting_after=after)
        assert caught.value.param == "starting_after"


def test_a_stream_that_disconnects(served: Served, upstream: ChatServer) -> None:
    """The run goes on, and another stream continues after the last event that was read."""
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
    assert [call.body["model"] for call in upstream.calls] == ["planner", "one", "two"]


def test_a_cancelled_response(served: Served, upstream: ChatServer) -> None:
    """The call of the worker is closed; the last event has the status; cancelling again changes nothing."""
    upstream.reply = stalls
    client = served.client()
    begun = client.responses.create(model="podium", input=ASKED, background=True)
    assert until(lambda: len(upstream.calls) == 3)
    cancelled = client.responses.cancel(begun.id)
    assert cancelled.status == "cancelled"
    assert until(upstream.calls[-1].hung_up.is_set)
    events: list[Any] = list(client.responses.retrieve(begun.id, stream=True))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.status == "cancelled"
    assert client.responses.cancel(begun.id) == cancelled == client.responses.retrieve(begun.id)
    begun = client.responses.create(model="podium", input=ASKED, background=True)
    assert until(lambda: len(upstream.calls) == 6)
    client.responses.delete(begun.id)  # is cancelled before
    assert until(upstream.calls[-1].hung_up.is_set)
    for call in (client.responses.retrieve, client.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            call(begun.id)


def test_a_run_that_fails(served: Served, upstream: ChatServer) -> None:
    """The response has the code of the problem."""
    upstream.reply = fails
    client = served.client()
    answer = ended(client, client.responses.create(model="podium", input=ASKED, background=True).id)
    assert (answer.status, answer.error.code) == ("failed", "worker_refused")


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


def test_a_refused_request(serve: Serve) -> None:
    """Nothing is stored."""
    served = serve()
    for change in ({"model": "nothing"}, {"tools": TOOLS, "input": []}):
        with pytest.raises(openai.APIStatusError):
            served.client().responses.create(
                **{"model": "podium", "input": ASKED, "background": True, **change}
            )
    assert served.http().get("/runs").json()["data"] == []


def test_a_run_that_never_began(served: Served) -> None:
    """Its response has the end of its job, and no text; a conversation cannot continue it."""
    assert served.app.journal is not None
    url = served.app.journal.url

    async def fail_job(name: str, code: str) -> None:
        table = JobTable(SqlJournal(url))
        async with table.journal.leased() as lease:  # else the server takes the job before it has failed
            await table.add(new_job(name, "response", "local", {}), lease.holder)
            await table.fail(name, lease.holder, {"code": code, "message": "no", "model": "podium-1"})

    client = served.client()
    for code, status in (("invalid_api_key", "failed"), ("cancelled", "cancelled")):
        run_sync(lambda code=code, status=status: fail_job(status, code))
        never = f"resp_{status}"
        answer = client.responses.retrieve(never)
        assert (answer.status, answer.model, answer.output) == (status, "podium-1", [])
        events = [event.type for event in client.responses.retrieve(never, stream=True)]
        assert events[:2] == ["response.created", "response.queued"]
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="podium", input=ASKED, previous_response_id=never)
        assert caught.value.code == "previous_response_not_found"
        client.responses.delete(never)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(never)
