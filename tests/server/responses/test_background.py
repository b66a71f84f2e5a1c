"""Responses in the background: they go on without their client, and their events can be read at any time."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from server.responses.test_responses import ASKED, TOOLS, calls_add, fails
from server.scene import CONFIG, team, until
from servers.chat_server import STALL, Call, ChatServer, Pause, Reply, says
from servers.podium_server import Served, serving

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
    threading.Timer(0.3, released.set).start()
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


def test_a_deleted_response(served: Served, upstream: ChatServer) -> None:
    """A running response is cancelled before; its run and its events are gone."""
    upstream.reply = stalls
    client = served.client()
    begun = client.responses.create(model="podium", input=ASKED, background=True)
    assert until(lambda: len(upstream.calls) == 3)
    client.responses.delete(begun.id)
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


def test_tools(served: Served, upstream: ChatServer) -> None:
    """The calls of functions are items of the response, and the next response has their results."""

    def reply(call: Call) -> Reply:
        has_result = any(message["role"] == "tool" for message in call.body["messages"])
        if call.body["model"] == "two" and not has_result:
            return says(call, "", tool_calls=calls_add(1), finish_reason="tool_calls")
        return team(call)

    upstream.reply = reply
    client = served.client()
    begun = client.responses.create(model="podium", input=ASKED, tools=TOOLS, background=True)
    first = ended(client, begun.id)
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    result: Any = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "1"}
    begun = client.responses.create(
        model="podium", input=[result], tools=TOOLS, previous_response_id=first.id, background=True
    )
    assert ended(client, begun.id).output_text == "the answer"
    assert [call.body["model"] for call in upstream.calls] == ["planner", "one", "two", "two"]


def test_an_idempotency_key(served: Served, upstream: ChatServer) -> None:
    """The same request is the same response, also while it runs; another request is a conflict."""
    upstream.reply = lambda call: Reply((Pause(0.3), *team(call).parts))
    client = served.client()
    headers = {"Idempotency-Key": "k1"}
    asked: Any = {"model": "podium", "input": ASKED, "background": True, "extra_headers": headers}
    first = client.responses.create(**asked)
    again = client.responses.with_raw_response.create(**asked)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.parse().id == first.id
    with pytest.raises(openai.ConflictError) as caught:
        client.responses.create(**{**asked, "input": "Another question?"})
    assert caught.value.code == "idempotency_key_reused"
    ended(client, first.id)
    assert client.responses.create(**asked).output_text == "the answer"
    assert len(upstream.calls) == 3


@pytest.mark.long
@pytest.mark.parametrize("decision", [["approve"], ["refuse", "--why", "no"]])
def test_a_plan_that_waits_for_approval(
    upstream: ChatServer, tmp_path: Path, podium: Callable[..., Any], decision: list[str]
) -> None:
    """The response is in progress until somebody decides; then its run continues or ends."""
    text = CONFIG.format(url=upstream.url, models='[policy]\napprove = "later"', server="")
    with serving(text, tmp_path) as served:
        client = served.client()
        begun = client.responses.create(model="podium", input=ASKED, background=True)
        stream: Any = client.responses.retrieve(begun.id, stream=True)
        assert any("waits for approval" in getattr(event, "delta", "") for event in stream)
        stream.close()
        run_id = begun.id.removeprefix("resp_")
        command = ["decide", run_id, *decision, "--config", str(tmp_path / "podium.toml")]
        for _ in range(50):  # the run is held for a moment after its event
            done = podium(*command)
            if done.exit_code == 0:
                break
            time.sleep(0.1)
        assert done.exit_code == 0, done.output
        answer = ended(client, begun.id)
    if decision == ["approve"]:
        assert (answer.status, answer.output_text) == ("completed", "the answer")
        assert [call.body["model"] for call in upstream.calls] == ["planner", "one", "two"]
    else:
        assert (answer.status, answer.error.code) == ("failed", "refused")


@pytest.mark.parametrize("change", [{"model": "nothing"}, {"tools": TOOLS, "input": []}])
def test_a_refused_request(served: Served, tmp_path: Path, change: dict[str, Any]) -> None:
    """Nothing is stored."""
    with pytest.raises(openai.APIStatusError):
        served.client().responses.create(**{"model": "podium", "input": ASKED, "background": True, **change})
    table = JobTable(SqlJournal(tmp_path / "runs.db"))
    count = "SELECT job_id FROM podium_jobs UNION SELECT run_id FROM podium_runs"
    assert not run_sync(lambda: table.transaction(lambda each: each.fetch(count)))


@pytest.mark.parametrize(("code", "status"), [("invalid_api_key", "failed"), ("cancelled", "cancelled")])
def test_a_run_that_never_began(served: Served, tmp_path: Path, code: str, status: str) -> None:
    """Its response has the end of its job, and no text; a conversation cannot continue it."""
    error = {"code": code, "message": "no", "model": "podium-1"}

    async def fail_job() -> None:
        journal = SqlJournal(tmp_path / "runs.db")
        table = JobTable(journal)
        async with journal.leased() as lease:  # else the server takes the job before it has failed
            await table.add(new_job("never", "response", "local", {}), lease.holder)
            await table.fail("never", lease.holder, error)

    run_sync(fail_job)
    client = served.client()
    answer = client.responses.retrieve("resp_never")
    assert (answer.status, answer.model, answer.output) == (status, "podium-1", [])
    assert [event.type for event in client.responses.retrieve("resp_never", stream=True)][:2] == [
        "response.created", "response.queued",
    ]  # fmt: skip
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="podium", input=ASKED, previous_response_id="resp_never")
    assert caught.value.code == "previous_response_not_found"
    client.responses.delete("resp_never")
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_never")


def test_a_plan_that_waits_in_an_open_request(upstream: ChatServer, tmp_path: Path) -> None:
    """The request gets an error; its response is in progress until somebody decides, as its run is."""
    text = CONFIG.format(url=upstream.url, models='[policy]\napprove = "later"', server="")
    with serving(text, tmp_path) as served:
        client = served.client()
        with pytest.raises(openai.ConflictError) as caught:
            client.responses.create(model="podium", input=ASKED)
        response_id = f"resp_{caught.value.response.headers['x-podium-run-id']}"
        assert client.responses.retrieve(response_id).status == "in_progress"
        client.post(f"/runs/{response_id.removeprefix('resp_')}/approve", body={}, cast_to=object)
        answer = ended(client, response_id)
    assert (answer.status, answer.output_text) == ("completed", "the answer")


WRONG = [
    ("GET", "?stream=maybe", "stream"),
    ("GET", "?stream=true", "stream"),
    ("GET", "?starting_after=1", "starting_after"),
    ("GET", "?stream=true&starting_after=x", "starting_after"),
    ("GET", "?stream=true&starting_after=-2", "starting_after"),
    ("GET", "?stream=true&starting_after=-1", "starting_after"),
    ("POST", "/cancel", "response_id"),
]


@pytest.mark.long
@pytest.mark.parametrize(("method", "rest", "param"), WRONG)
def test_a_wrong_request(served: Served, method: str, rest: str, param: str) -> None:
    """A response that does not run in the background has no events, and cannot be cancelled."""
    client = served.client()
    answer = client.responses.create(model="podium", input=ASKED)
    path = f"/responses/{answer.id}{rest}"
    with pytest.raises(openai.BadRequestError) as caught:
        client.get(path, cast_to=object) if method == "GET" else client.post(path, cast_to=object)
    assert caught.value.param == param
