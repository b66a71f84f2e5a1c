"""Responses in the background survive the end of their process: another process or the next start goes on."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from server.responses.test_background import ended, stalls
from server.responses.test_responses import ASKED
from server.scene import CONFIG, process, team, until
from servers.chat_server import ChatServer

from podium.aio import run_sync
from podium.errors import JournalError
from podium.journal import Schema, SqlJournal, SqlTables
from podium_server.jobs.table import SCHEMA, JobTable
from podium_server.keys import KeyRules, KeyStore

pytestmark = pytest.mark.long


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers; the last worker never answers."""
    with ChatServer(stalls).in_thread() as server:
        yield server


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, upstream: ChatServer) -> Path:
    """A folder with the config of a team; with PostgreSQL, if a test asks for it."""
    text = CONFIG.format(url=upstream.url, models="", server="drain_seconds = 1.0")
    if getattr(request, "param", "sqlite") == "postgres":
        text = text.replace('path = "runs.db"', f'url = "{request.getfixturevalue("postgres_url")}"')
    (tmp_path / "podium.toml").write_text(text)
    return tmp_path


def client_of(running: Any, key: str = "none") -> openai.OpenAI:
    """Return a client of a process."""
    return openai.OpenAI(base_url=running.url, api_key=key, max_retries=0, timeout=20)


def begun(client: openai.OpenAI, upstream: ChatServer, **options: Any) -> str:
    """Begin a response, and return its id when its last worker is called."""
    before = len(upstream.calls)
    response = client.responses.create(model="podium", input=ASKED, background=True, **options)
    assert until(lambda: len(upstream.calls) == before + 3)
    return response.id


def models(upstream: ChatServer) -> list[str]:
    """Return the names of the models that were called."""
    return [call.body["model"] for call in upstream.calls]


@pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)
def test_a_killed_process(folder: Path, upstream: ChatServer) -> None:
    """The next start finishes the response; only the call that had no answer is made again."""
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


def test_a_process_that_stops(folder: Path, upstream: ChatServer) -> None:
    """It releases the response after `drain_seconds`, and the next start finishes it."""
    with process(folder) as running, client_of(running) as client:
        response_id = begun(client, upstream)
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
    with process(folder) as running, client_of(running) as client:
        answer = ended(client, response_id)
    assert (answer.status, answer.output_text) == ("completed", "the answer")
    assert models(upstream) == ["planner", "one", "two", "two"]


def test_another_process(folder: Path, upstream: ChatServer) -> None:
    """It streams the events of the first, cancels its responses, and takes over when the first is killed."""
    with (
        process(folder) as first,
        process(folder) as second,
        client_of(first) as own,
        client_of(second) as other,
    ):
        cancelled = begun(own, upstream)
        assert other.responses.cancel(cancelled).status == "cancelled"
        response_id = begun(own, upstream)
        upstream.reply = team
        with other.responses.retrieve(response_id, stream=True) as stream:
            events: list[Any] = [next(stream)]
            first.kill()
            events += stream
        assert events[-1].type == "response.completed"
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert other.responses.retrieve(response_id) == events[-1].response
    assert models(upstream) == ["planner", "one", "two"] * 2 + ["two"]


def test_a_response_that_was_cancelled_without_a_process(folder: Path, upstream: ChatServer) -> None:
    """The next start ends it without a call."""
    with process(folder) as running, client_of(running) as client:
        response_id = begun(client, upstream)
        running.kill()
        running.wait(10)
    table = JobTable(SqlJournal(folder / "runs.db"))
    run_sync(lambda: table.cancel(response_id.removeprefix("resp_")))
    with process(folder) as running, client_of(running) as client:
        assert ended(client, response_id).status == "cancelled"
    assert models(upstream) == ["planner", "one", "two"]


def test_a_key_that_was_revoked(folder: Path, upstream: ChatServer) -> None:
    """A restarted server does not continue its responses; what was called is charged once."""
    keys = KeyStore(folder / "runs.db")
    _, good = run_sync(lambda: keys.create("good", KeyRules(day_cost=1.0, run_cost=0.5)))
    _, bad = run_sync(lambda: keys.create("bad", KeyRules()))
    with process(folder) as running, client_of(running, good) as own, client_of(running, bad) as other:
        kept, refused = begun(own, upstream), begun(other, upstream)
        running.kill()
        running.wait(10)
    run_sync(lambda: keys.revoke("bad"))
    with process(folder) as running, client_of(running, good) as own:
        assert ended(own, kept).status == "completed"
    assert models(upstream) == ["planner", "one", "two"] * 2 + ["two"]
    table = JobTable(SqlJournal(folder / "runs.db"))
    job = run_sync(lambda: table.find(refused.removeprefix("resp_")))
    assert job is not None
    assert job.error is not None
    assert job.error["code"] == "invalid_api_key"


EARLIER = Schema(
    "responses",
    [
        [
            "CREATE TABLE podium_responses (response_id TEXT PRIMARY KEY, request TEXT NOT NULL)",
            "CREATE TABLE podium_response_events (response_id TEXT NOT NULL, event TEXT NOT NULL)",
        ]
    ],
)


@pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)
def test_an_earlier_version(folder: Path, request: pytest.FixtureRequest) -> None:
    """Its tables of responses go with its jobs of responses; the server makes and stores responses."""
    is_sqlite = "path =" in (folder / "podium.toml").read_text()
    at = folder / "runs.db" if is_sqlite else request.getfixturevalue("postgres_url")
    before = SqlTables(Schema(SCHEMA.name, SCHEMA.versions[:3]), at)
    job = """
        INSERT INTO podium_jobs VALUES ('1', 'response', 'local', '{}', 1.0, '', 1.0, 1, 0, NULL)
    """
    run_sync(lambda: before.transaction(lambda each: each.execute(job)))
    run_sync(lambda: SqlTables(EARLIER, at).transaction(lambda each: each.fetch("SELECT 1")))
    with process(folder) as running, client_of(running) as client:
        answer = client.responses.create(model="podium", input=ASKED)
        assert client.responses.retrieve(answer.id).output_text == "the answer"
    after = SqlTables(SCHEMA, at)
    assert not run_sync(lambda: after.transaction(lambda each: each.fetch("SELECT * FROM podium_jobs")))
    for query in ("SELECT * FROM podium_responses", "SELECT * FROM podium_response_events"):
        with pytest.raises(JournalError):
            run_sync(lambda query=query: after.transaction(lambda each: each.fetch(query)))
