"""What a chat worker makes of refusals, of overload, and of errors inside of answers."""

import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from servers.chat_call import ask
from servers.chat_server import CUT, RESET, ChatServer, Reply, chunk, events, whole

from podium import ChatWorker, Conductor, Endpoint, Message, Plan, Step
from podium.errors import WorkerBroken, WorkerError, WorkerRefused, WorkerUnavailable
from podium.planners import FixedPlanner
from podium.workers import Request, complete

pytestmark = pytest.mark.anyio

KEY = "sk-abcdefghijklmnop"
WHY = Request(messages=(Message("user", "why?"),))
PLAN = FixedPlanner(Plan((Step(0, "Say it."),)))
FILTERED = {"error": {"code": "content_filter", "message": "The prompt was filtered."}}
NO_CREDIT = {"error": {"code": "insufficient_quota", "message": "no money"}}
TOO_MUCH = "too much heron"


def fails(status: int, body: object = "sorry", **headers: str) -> Reply:
    """Reply with a status; underscores in header names stand for hyphens."""
    return whole(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize(
    ("status", "body", "code", "told"),
    [
        (307, "sorry", "worker_refused", "use the final URL as base_url"),
        (400, "sorry", "worker_refused", "sorry"),
        (401, "sorry", "worker_refused", "the key was refused: check the endpoint's api_key"),
        (404, "sorry", "worker_refused", "check the worker's model"),
        (408, "sorry", "worker_unavailable", "sorry"),
        (429, "sorry", "worker_unavailable", "sorry"),
        (503, "sorry", "worker_unavailable", "sorry"),
        (204, b"", "worker_broken", ""),
        pytest.param(429, NO_CREDIT, "worker_refused", "no money", id="429 for want of money"),
        pytest.param(400, FILTERED, "answer_refused", "filtered", id="400 of a content filter"),
        pytest.param(400, {"error": {"message": TOO_MUCH}}, "worker_refused", TOO_MUCH, id="object"),
        pytest.param(400, {"error": TOO_MUCH}, "worker_refused", TOO_MUCH, id="text"),
        pytest.param(400, {"detail": [{"msg": TOO_MUCH}]}, "worker_refused", TOO_MUCH, id="details"),
        pytest.param(400, "<html>too\n\n  much heron</html>", "worker_refused", TOO_MUCH, id="a page"),
    ],
)
async def test_a_status_is_the_right_error(status: int, body: Any, code: str, told: str) -> None:
    for stream in (False, True):
        with pytest.raises(WorkerError, match=re.escape(told) or None) as caught:
            await ask(lambda _: fails(status, body), stream=stream, api_key=KEY)
        assert (caught.value.code, caught.value.status) == (code, status)


async def test_says_that_a_key_is_missing() -> None:
    with pytest.raises(WorkerRefused, match="no key was sent"):
        await ask(lambda _: fails(401))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after": "1.5"}, 1.5), ({"retry_after": "86400"}, 86400.0), ({"retry_after_ms": "250"}, 0.25),
     ({"retry_after": "soon"}, None), ({"retry_after_ms": "nan"}, None)]
)  # fmt: skip
async def test_reads_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    """A wait the server asks for is carried along, however long."""
    with pytest.raises(WorkerUnavailable) as caught:
        await ask(lambda _: fails(429, **headers))
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(("offset", "low", "high"), [(-60, 0, 0), (10**6, 10**6 - 30, 10**6)])
async def test_reads_until_when_to_wait(offset: int, low: float, high: float) -> None:
    """A wait may be a date."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=offset), usegmt=True)
    with pytest.raises(WorkerUnavailable) as caught:
        await ask(lambda _: fails(503, retry_after=date))
    assert caught.value.retry_after is not None
    assert low <= caught.value.retry_after <= high


async def test_quotes_little() -> None:
    with pytest.raises(WorkerRefused) as caught:
        await ask(lambda _: fails(400, "\x1b[2J\x07" + "x" * 100_000))
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": "503", "message": "m"}, "worker_unavailable"),
        ({"type": "invalid_request_error", "message": "m"}, "worker_refused"),
        ({"type": "rate_limit_error", "message": "m"}, "worker_unavailable"),
        ({"status": "RESOURCE_EXHAUSTED", "message": "m"}, "worker_unavailable"),
        ({"code": "context_length_exceeded", "message": "m"}, "worker_refused"),
        ("m", "worker_broken"),
    ],
)
async def test_an_error_inside_a_success_is_an_error(error: object, code: str) -> None:
    half = chunk({"content": "half an "})
    for stream, reply in ((False, whole({"error": error})), (True, events(half, {"error": error}))):
        with pytest.raises(WorkerError, match="m") as caught:
            await ask(lambda _, reply=reply: reply, stream=stream)
        assert (caught.value.code, caught.value.maybe_paid) == (code, True)


@pytest.mark.parametrize("data", [b'{"message": "sunk"}', b"sunk"])
async def test_an_error_event_is_an_error(data: bytes) -> None:
    """An event named `error` is one, whatever its data."""
    with pytest.raises(WorkerBroken, match="sunk"):
        await ask(lambda _: events(b"event: error\ndata: " + data + b"\n\n"), stream=True)


@pytest.mark.parametrize("listens", [False, True])
async def test_a_web_page_is_told_at_once(*, listens: bool) -> None:
    page = whole("\n<!DOCTYPE html><title>Welcome</title>", content_type="text/plain")
    options: dict[str, Any] = {"on_event": lambda event: None} if listens else {}
    async with ChatServer(lambda _: page) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url))
        result = await Conductor(PLAN, [worker]).run("What?", **options)
        assert len(server.calls) == 1
    assert result.problem.code == "worker_refused"
    assert "web page: does the base URL lead to an OpenAI-compatible server" in result.problem.message
    assert result.usage.total_tokens == 0


@pytest.mark.parametrize("name", ["127.0.0.1", "no-such-host.invalid"])
async def test_a_server_that_is_not_there_is_unavailable(name: str) -> None:
    """A refused connection, or a name without an address, is not paid."""
    async with ChatServer(lambda _: whole({})) as server:
        url = server.url.replace("127.0.0.1", name)
    with pytest.raises(WorkerUnavailable, match="is the server up") as caught:
        await complete(ChatWorker("m", endpoint=Endpoint(url)), WHY)
    assert not caught.value.maybe_paid


@pytest.mark.parametrize("end", [RESET, CUT])
async def test_a_connection_that_ends_before_the_answer_is_perhaps_paid(end: Any) -> None:
    """Nobody knows what a server did that took the request and hung up."""
    for stream in (False, True):
        with pytest.raises(WorkerUnavailable, match="without an answer") as caught:
            await ask(lambda _: Reply((end,)), stream=stream)
        assert caught.value.maybe_paid
