"""What a chat worker makes of refusals, of overload, and of errors inside of answers."""

import re
import resource
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from servers.chat_call import ask
from servers.chat_server import (
    CUT,
    RESET,
    Call,
    ChatServer,
    Reply,
    Script,
    chunk,
    completion,
    events,
    says,
    whole,
)

from podium import Conductor
from podium.errors import (
    AnswerRefused,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerUnavailable,
)
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Completion, Message, Plan, Step
from podium.workers import ChatWorker, Endpoint, Request, complete

pytestmark = pytest.mark.anyio

KEY = "sk-abcdefghijklmnop"


def fails(status: int, body: object = "sorry", **headers: str) -> Reply:
    """Reply with a status; underscores in header names stand for hyphens."""
    return whole(body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, WorkerRefused),
        (400, WorkerRefused),
        (401, WorkerRefused),
        (402, WorkerRefused),
        (403, WorkerRefused),
        (404, WorkerRefused),
        (405, WorkerRefused),
        (408, WorkerUnavailable),
        (409, WorkerUnavailable),
        (413, WorkerRefused),
        (422, WorkerRefused),
        (425, WorkerUnavailable),
        (429, WorkerUnavailable),
        (500, WorkerUnavailable),
        (503, WorkerUnavailable),
        (529, WorkerUnavailable),
        (202, WorkerBroken),
        (204, WorkerBroken),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_status_is_the_right_error(status: int, kind: type[WorkerError], *, stream: bool) -> None:
    """Each status is an error of its kind that carries the status."""
    body = b"" if status == 204 else "sorry"
    with pytest.raises(WorkerError) as caught:
        await ask(lambda _: fails(status, body), stream=stream)
    assert type(caught.value) is kind
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "the key was refused: check the endpoint's api_key"), (404, "check the worker's model"),
     (307, "use the final URL as base_url"), (400, "sorry")],
)  # fmt: skip
async def test_says_how_to_mend_it(status: int, remedy: str) -> None:
    """The message names the remedy."""
    with pytest.raises(WorkerRefused, match=re.escape(remedy)):
        await ask(lambda _: fails(status), api_key=KEY)


async def test_says_that_a_key_is_missing() -> None:
    """Refused without a key is told from refused with one."""
    with pytest.raises(WorkerRefused, match="no key was sent"):
        await ask(lambda _: fails(401))


async def test_follows_no_redirect() -> None:
    """A redirect is not followed, wherever it leads."""
    calls = []

    def script(call: Any) -> Reply:
        calls.append(call.path)
        return fails(302, location="/v1/elsewhere")

    with pytest.raises(WorkerRefused):
        await ask(script)
    assert calls == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after": "7"}, 7.0), ({"retry_after": "1.5"}, 1.5), ({"retry_after": "86400"}, 86400.0),
     ({"retry_after_ms": "250"}, 0.25), ({"retry_after": "soon"}, None), ({"retry_after_ms": "nan"}, None),
     ({}, None)],
)  # fmt: skip
async def test_reads_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    """A wait the server asks for is carried along, however long."""
    with pytest.raises(WorkerUnavailable) as caught:
        await ask(lambda _: fails(429, **headers))
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(("offset", "low", "high"), [(60, 30, 60), (-60, 0, 0), (10**6, 10**6 - 30, 10**6)])
async def test_reads_until_when_to_wait(offset: int, low: float, high: float) -> None:
    """A wait may be a date."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=offset), usegmt=True)
    with pytest.raises(WorkerUnavailable) as caught:
        await ask(lambda _: fails(503, retry_after=date))
    assert caught.value.retry_after is not None
    assert low <= caught.value.retry_after <= high


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too much heron", "type": "invalid_request_error"}},
        {"error": "too much heron"},
        {"object": "error", "message": "too much heron", "code": 400},
        {"detail": "too much heron"},
        {"detail": [{"msg": "too much heron"}]},
        [{"error": {"code": 400, "message": "too much heron", "status": "INVALID_ARGUMENT"}}],
        "too much heron",
        "<html>too\n\n  much heron</html>",
    ],
)
async def test_quotes_the_reason(body: object) -> None:
    """The reason is found in every shape of error body."""
    with pytest.raises(WorkerRefused, match="too much heron"):
        await ask(lambda _: fails(400, body))


async def test_quotes_little() -> None:
    """A long body is cut, and control characters are not printed."""
    with pytest.raises(WorkerRefused) as caught:
        await ask(lambda _: fails(400, "\x1b[2J\x07" + "x" * 100_000))
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def gossip(call: Call) -> Reply:
    """Echo what is secret in the request, at the edge of what gets quoted."""
    return fails(400, f"{'x' * 290}{call.headers['authorization']} {call.headers['x-own']}")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(gossip, id="echo"),
        pytest.param(lambda _: Reply((b"SSH-2.0-OpenSSH_9.6\r\n\r\n", CUT)), id="not http"),
        pytest.param(lambda _: Reply((RESET,)), id="reset"),
        pytest.param(lambda _: events(chunk({"content": "half"}), RESET), id="reset within"),
        pytest.param(lambda call: whole(f"<p>{call.headers['authorization']}"), id="echo that is no json"),
        pytest.param(lambda call: whole({"error": dict(call.headers)}), id="echo inside a success"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_never_shows_a_secret(script: Script, *, stream: bool) -> None:
    """No secret is in an error or in what it came from, even if the server echoes it."""
    with pytest.raises(WorkerError) as caught:
        await ask(script, stream=stream, api_key=KEY, headers={"X-Own": "another-secret"})
    error: BaseException | None = caught.value
    while error is not None:
        assert "sk-abc" not in f"{error!r} {error}"
        assert "another-sec" not in f"{error!r} {error}"
        error = error.__cause__ or error.__context__


async def test_an_account_without_credit_is_refused() -> None:
    """429 for want of money is not taken for overload: waiting does not help."""
    body = {"error": {"code": "insufficient_quota", "message": "no money"}}
    with pytest.raises(WorkerRefused, match="no money"):
        await ask(lambda _: fails(429, body))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "m"}, WorkerUnavailable),
        ({"code": "503", "message": "m"}, WorkerUnavailable),
        ({"code": 400, "message": "m"}, WorkerRefused),
        ({"type": "invalid_request_error", "message": "m"}, WorkerRefused),
        ({"type": "rate_limit_error", "message": "m"}, WorkerUnavailable),
        ({"type": "overloaded_error", "message": "m"}, WorkerUnavailable),
        ({"status": "RESOURCE_EXHAUSTED", "message": "m"}, WorkerUnavailable),
        ({"code": "context_length_exceeded", "message": "m"}, WorkerRefused),
        ({"message": "m"}, WorkerBroken),
        ("m", WorkerBroken),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_inside_a_success_is_an_error(
    error: object, kind: type[WorkerError], *, stream: bool
) -> None:
    """200 with an error body is the error it names, whole or in a stream."""
    reply = events(chunk({"content": "half an "}), {"error": error}) if stream else whole({"error": error})
    with pytest.raises(WorkerError, match="m") as caught:
        await ask(lambda _: reply, stream=stream)
    assert caught.value.code == kind.code
    assert caught.value.maybe_paid


@pytest.mark.parametrize("data", [b'{"message": "sunk"}', b"sunk", b'{"error": {"message": "sunk"}}'])
async def test_an_error_event_is_an_error(data: bytes) -> None:
    """An event named `error` is one, whatever its data."""
    with pytest.raises(WorkerBroken, match="sunk"):
        await ask(lambda _: events(b"event: error\ndata: " + data + b"\n\n"), stream=True)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_content_filter_is_a_refusal(*, stream: bool) -> None:
    """An answer the filter stopped is none, even if half of it came."""
    frames = events(chunk({"content": "Once"}), chunk({}, finish_reason="content_filter"))
    body = whole(completion("Once", finish_reason="content_filter"))
    with pytest.raises(WorkerRefused, match="content filter"):
        await ask(lambda _: frames if stream else body, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_a_refusal(*, stream: bool) -> None:
    """A model that refuses in its own field has not answered."""
    body = completion(None)
    body["choices"][0]["message"]["refusal"] = "I would rather not"
    frames = [
        chunk({"refusal": "I would "}),
        chunk({"refusal": "rather not"}),
        chunk({}, finish_reason="stop"),
    ]
    with pytest.raises(WorkerRefused, match="I would rather not"):
        await ask(lambda _: events(*frames) if stream else whole(body), stream=stream)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["", "Well, "])
async def test_a_refusal_among_parts_is_a_refusal(text: str, *, stream: bool) -> None:
    """A model that refuses in a part of the content has not answered, whatever text is beside it."""
    parts = [{"type": "text", "text": text}, {"type": "refusal", "refusal": "I would rather not"}]
    body = completion(None)
    body["choices"][0]["message"]["content"] = parts
    frames = [*(chunk({"content": [part]}) for part in parts), chunk({}, finish_reason="stop")]
    with pytest.raises(AnswerRefused, match="I would rather not"):
        await ask(lambda _: events(*frames) if stream else whole(body), stream=stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_end_for_tools_without_a_call_is_a_refusal(*, stream: bool) -> None:
    """A text before calls of tools that never came is no whole answer."""
    frames = events(chunk({"content": "I will look"}), chunk({}, finish_reason="tool_calls"))
    body = whole(completion("I will look", finish_reason="tool_calls"))
    with pytest.raises(AnswerRefused, match="calls no tool") as caught:
        await ask(lambda _: frames if stream else body, stream=stream)
    assert caught.value.maybe_paid


@pytest.mark.parametrize("stream", [False, True])
async def test_parts_that_are_no_text_are_a_stated_gap(*, stream: bool) -> None:
    """An image beside the text is named in what is missing; an image alone is no answer."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    said = [{"type": "text", "text": "Here"}, image]

    async def answer(parts: list[dict[str, Any]]) -> Completion:
        body = completion(None)
        body["choices"][0]["message"]["content"] = parts
        frames = events(chunk({"content": parts}), chunk({}, finish_reason="stop"))
        return (await ask(lambda _: frames if stream else whole(body), stream=stream)).completion

    got = await answer(said)
    assert got.text == "Here"
    assert "image_url" in str(got.missing)
    with pytest.raises(WorkerFailed, match=r"no text; .*image_url"):
        await answer([image])
    assert (await answer([{"type": "thinking", "thinking": "hm"}, said[0]])).missing is None


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        whole("<h1>Welcome</h1>", content_type="text/html; charset=utf-8"),
        whole("\n<!DOCTYPE html><title>Welcome</title>", content_type="text/plain"),
        whole("<html>Welcome</html>"),
    ],
)
async def test_a_web_page_is_told_at_once(reply: Reply, *, listens: bool) -> None:
    """The page of a site at the base URL is no broken answer: one call, no charge, and the remedy."""
    async with ChatServer(lambda _: reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url))
        options: dict[str, Any] = {"on_event": lambda event: None} if listens else {}
        result = await Conductor(FixedPlanner(Plan((Step(0, "x"),))), [worker]).run("What?", **options)
        assert len(server.calls) == 1
    assert result.problem is not None
    assert result.problem.code == "worker_refused"
    assert "web page: does the base URL lead to an OpenAI-compatible server" in result.problem.message
    assert result.usage.total_tokens == 0


async def test_a_server_that_is_down_is_unavailable() -> None:
    """A refused connection is not paid."""
    async with ChatServer(lambda _: whole({})) as server:
        url = server.url
    with pytest.raises(WorkerUnavailable, match="is the server up") as caught:
        await complete(ChatWorker("m", endpoint=Endpoint(url)), Request(messages=(Message("user", "why?"),)))
    assert not caught.value.maybe_paid


async def test_a_host_nobody_knows_is_unavailable() -> None:
    """A name without an address is not paid."""
    endpoint = Endpoint("http://no-such-host.invalid/v1")
    with pytest.raises(WorkerUnavailable) as caught:
        await complete(ChatWorker("m", endpoint=endpoint), Request(messages=(Message("user", "why?"),)))
    assert not caught.value.maybe_paid


@pytest.mark.parametrize("end", [RESET, CUT])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_that_ends_before_the_answer_is_perhaps_paid(end: Any, *, stream: bool) -> None:
    """Nobody knows what a server did that took the request and hung up."""
    with pytest.raises(WorkerUnavailable, match="without an answer") as caught:
        await ask(lambda _: Reply((end,)), stream=stream)
    assert caught.value.maybe_paid


async def test_a_body_that_quotes_the_key_does_not_show_it() -> None:
    """Neither the text of the error, nor what was received, nor the cause."""
    key = "sk-canary-0123456789"
    async with ChatServer(lambda call: whole(f"<p>{call.headers['authorization']}</p>")) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url, api_key=key))
        with pytest.raises(WorkerBroken) as caught:
            await complete(worker, Request(messages=(Message("user", "hello"),)))
    assert "[secret]" in str(caught.value.received)
    told = [vars(each) for each in (caught.value, caught.value.__cause__) if each is not None]
    assert key not in f"{told} {caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize("stream", [False, True])
async def test_bytes_that_quote_the_key_do_not_show_it(*, stream: bool) -> None:
    """The cause of an answer that is not UTF-8 has its bytes, without the key."""
    key = "sk-canary-0123456789"
    data = b'{"choices": "\xff %s"}' % key.encode()
    reply = events(b"data: " + data + b"\n\n") if stream else whole(data)
    async with ChatServer(lambda call: reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url, api_key=key))
        with pytest.raises(WorkerBroken, match="not UTF-8") as caught:
            await complete(worker, Request(messages=(Message("user", "hello"),), stream=stream))
    cause = caught.value.__cause__
    assert isinstance(cause, UnicodeDecodeError)
    assert key not in f"{cause!r} {cause.args} {cause.object!r} {caught.value.received}"


async def test_a_process_without_file_descriptors_blames_no_worker() -> None:
    """The call is retried, under one code, and the circuit breaker of the worker stays closed."""
    retry = Retry(attempts=2, first_wait=0.001, break_after=1)
    async with ChatServer(lambda call: says(call, "fine")) as server:
        planner = FixedPlanner(Plan((Step(0, "Say it."),)))
        other, conductor = (
            Conductor(planner, [ChatWorker("m", endpoint=Endpoint(server.url))], retry=retry)
            for _ in range(2)
        )
        await other.run("What?")  # imports modules, which needs file descriptors
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            full = await conductor.run("What?")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        free = await conductor.run("What?")
    (outcome,) = full.outcomes
    assert outcome.problem is not None
    assert (outcome.problem.code, outcome.attempts, outcome.maybe_paid) == ("worker_unavailable", 2, False)
    assert "file descriptor" in outcome.problem.message
    assert free.answer == "fine"


async def test_a_refusal_that_quotes_the_key_does_not_show_it() -> None:
    """What a model says of itself is scrubbed as error bodies are."""
    key = "sk-canary-0123456789"
    body = {"choices": [{"message": {"content": None, "refusal": f"I know {key}"}, "finish_reason": "stop"}]}
    async with ChatServer(lambda call: whole(body)) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url, api_key=key))
        with pytest.raises(WorkerRefused) as caught:
            await complete(worker, Request(messages=(Message("user", "hello"),)))
    assert key not in str(caught.value)
    assert "[secret]" in str(caught.value)
