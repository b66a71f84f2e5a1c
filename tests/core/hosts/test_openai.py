"""A conductor behind OpenAI's clients: each behaviour async and sync, whole and streamed."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import ContextVar
from typing import Any

import anyio
import openai
import pytest
from core.actors import in_a_row as team
from servers.capable import capable
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events

from podium import Card, ChatWorker, Conductor, Endpoint, ScriptedWorker
from podium.errors import ConfigError, LimitExceeded, PodiumError, QueryError, RunFailed, WorkerRefused
from podium.hosts import BASE_URL, ConductorTransport, run_errors, tool_call
from podium.journal import MemoryJournal
from podium.types import Completion
from podium.usage import Usage
from podium.workers import FREE, Request

pytestmark = pytest.mark.anyio

ASKED: Any = [{"role": "user", "content": "Is it warm in Bern?"}]
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALLS = tuple(tool_call(f"call-{city}", "weather", {"city": city}) for city in ("Bern", "Ulm"))
WAYS = ["async", "sync", "async stream", "sync stream"]
Ask = Callable[..., Any]


def writer(text: str = "Yes, very.", **more: Any) -> ScriptedWorker:
    return ScriptedWorker("writer", Completion(text, usage=Usage(30, 7), **more), piece=4)


class Caller(ScriptedWorker):
    """Asks for tools until their results are there, and then tells them."""

    takes_tools = True

    def __init__(self) -> None:
        def reply(request: Request) -> Completion:
            said = [message.text for message in request.tool_messages if message.role == "tool"]
            return Completion(" ".join(said)) if said else Completion("", "tool_calls", tool_calls=CALLS)

        super().__init__(Card(name="caller", price=FREE), reply)


def clients(transport: ConductorTransport) -> tuple[openai.AsyncOpenAI, openai.OpenAI]:
    given: Any = {"base_url": BASE_URL, "api_key": "none", "max_retries": 0}
    sync = openai.OpenAI(http_client=transport.client(), **given)
    return openai.AsyncOpenAI(http_client=transport.async_client(), **given), sync


@pytest.fixture(params=["async", "sync stream"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Return a function that asks in one way, and returns the whole response."""

    async def asking(conductor: Conductor | ConductorTransport, messages: Any = ASKED, **more: Any) -> Any:
        transport = conductor if isinstance(conductor, ConductorTransport) else ConductorTransport(conductor)
        client, sync = clients(transport)
        given: Any = {"model": "mine", "messages": messages, **more}
        streamed = {**given, "stream": True, "stream_options": {"include_usage": True}}
        match request.param:
            case "async":
                return await client.chat.completions.create(**given)
            case "sync":
                return sync.chat.completions.create(**given)
            case "async stream":
                return joined([piece async for piece in await client.chat.completions.create(**streamed)])
        return joined(list(sync.chat.completions.create(**streamed)))

    return asking


def joined(chunks: Sequence[Any]) -> Any:
    (*_, end, last), parts = chunks, [chunk for chunk in chunks if chunk.choices]
    assert [part.choices[0].delta.role for part in parts] == ["assistant"] + [None] * (len(parts) - 1)
    deltas = [part.choices[0].delta for part in parts]
    calls = [call.model_dump(exclude={"index"}) for delta in deltas for call in delta.tool_calls or ()]
    text = "".join(delta.content or "" for delta in deltas)
    message = {"role": "assistant", "content": text, "tool_calls": calls or None}
    choice = {"index": 0, "message": message, "finish_reason": end.choices[0].finish_reason}
    body = {**last.model_dump(), "object": "chat.completion", "choices": [choice], "podium": end.podium}
    return openai.types.chat.ChatCompletion.model_validate(body)


@pytest.mark.parametrize("ask", WAYS, indirect=True)
async def test_the_answer_and_what_is_told_of_the_run(ask: Ask) -> None:
    looks = ScriptedWorker("looks", Completion("31 degrees", usage=Usage(20, 5, cached_tokens=4)))
    last = writer()
    answer = await ask(team(looks, last), temperature=0.5, max_tokens=9, stop="END")
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Yes, very.", "stop")
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (50, 62)
    assert (answer.usage.prompt_tokens_details.cached_tokens, answer.usage.estimated) == (4, False)
    assert (answer.podium["status"], len(answer.podium["steps"])) == ("ok", 2)
    assert (answer.id, answer.model) == (f"chatcmpl-{answer.podium['run_id']}", "mine")
    assert json.loads(json.dumps(answer.podium)) == answer.podium
    (first,), (second,) = looks.requests, last.requests
    assert (first.sampling.temperature, first.sampling.max_tokens) == (None, None)
    assert (second.sampling.temperature, second.sampling.max_tokens) == (0.5, 9)
    assert second.sampling.stop == ("END",)


async def test_a_piece_is_there_before_the_next_is_written() -> None:
    read, asker, seen = anyio.Event(), ContextVar("asker", default=""), list[str]()

    class Waits(ScriptedWorker):
        async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
            seen.append(asker.get())
            yield "Yes, "
            await read.wait()
            yield "very."
            yield Completion("Yes, very.")

    client, _ = clients(ConductorTransport(team(ScriptedWorker("looks", "31"), Waits("writer", ""))))
    asker.set("Ada")
    stream = await client.chat.completions.create(model="mine", messages=ASKED, stream=True)
    asker.set("Grace")
    said = ""
    async for piece in stream:
        said += piece.choices[0].delta.content or ""
        if said == "Yes, ":
            read.set()
    assert (said, seen) == ("Yes, very.", ["Ada"])


@pytest.mark.parametrize(("journalled", "parallel"), [(False, True), (True, False)])
async def test_tool_calls_are_continued(ask: Ask, *, journalled: bool, parallel: bool) -> None:
    looks, caller = ScriptedWorker("looks", "facts"), Caller()
    conductor = team(looks, caller, journal=MemoryJournal() if journalled else None)
    transport = ConductorTransport(conductor)
    more: Any = {"tools": [WEATHER], "parallel_tool_calls": parallel}
    first = await ask(transport, **more)
    message = first.choices[0].message
    calls = [call.model_dump() for call in message.tool_calls]
    assert (first.choices[0].finish_reason, calls) == ("tool_calls", list(CALLS[: 2 if parallel else 1]))
    said = [*ASKED]
    for _ in range(1 if parallel else 2):  # the second call follows without asking its worker
        given = [call.model_dump() for call in message.tool_calls]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "31"} for call in given]
        said += [{"role": "assistant", "tool_calls": given}, *results]
        answer = await ask(ConductorTransport(conductor) if journalled else transport, said, **more)
        message = answer.choices[0].message
    assert (message.content, len(looks.requests), len(caller.requests)) == ("31 31", 1, 2)


@pytest.mark.parametrize(
    ("more", "kind", "told"),
    [
        ({"tools": [WEATHER], "tool_choice": "tide"}, ConfigError, "the tools are weather"),
        ({"messages": [{"role": "user", "content": ""}]}, QueryError, "the question is empty"),
        ({}, RunFailed, "out of order"),
    ],
)
async def test_the_error_of_a_run_is_raised(ask: Ask, more: Any, kind: Any, told: str) -> None:
    conductor = team(ScriptedWorker("writer", WorkerRefused("out of order")))
    with pytest.raises(kind, match=told) as raised, run_errors():
        await ask(conductor, **more)
    assert not isinstance(raised.value.__cause__, openai.OpenAIError)
    if kind is RunFailed:
        assert raised.value.result.status == "failed"
    with pytest.raises((openai.APIConnectionError, PodiumError)):
        await ask(conductor, **more)


async def test_other_requests_are_refused() -> None:
    client, sync = clients(ConductorTransport(team(writer())))
    with pytest.raises(ConfigError, match="not GET /v1/models: use the client for chat"), run_errors():
        await client.models.list()
    with pytest.raises(ValueError, match="ordinary"), run_errors():
        raise ValueError("an ordinary error")
    with pytest.raises(ConfigError, match="not POST /v1/responses"), run_errors():
        sync.responses.create(model="mine", input="Why?")


async def test_the_timeout_is_of_the_whole_call(ask: Ask) -> None:
    slow = ScriptedWorker("slow", "late", latency=30)
    with pytest.raises(LimitExceeded, match=r"0\.3 s"), run_errors():
        await ask(team(slow, writer()), timeout=0.3)
    assert len(slow.requests) == 1


def stalls(call: Call) -> Reply:
    if call.body["model"] == "looks":
        return capable(call)
    begun = [chunk({"role": "assistant", "content": ""}), chunk({"content": "Yes"})]
    return events(*begun, STALL) if call.body.get("stream") else Reply((STALL,))


@pytest.mark.parametrize("way", ["cancel", "leave sync stream"])
async def test_leaving_closes_the_connection_of_the_worker(way: str) -> None:
    async with ChatServer(stalls) as server:
        endpoint = Endpoint(server.url, api_key="key", provider="openai")
        pool: Any = [ChatWorker(name, endpoint=endpoint) for name in ("looks", "writer")]
        client, sync = clients(ConductorTransport(team(*pool)))
        given: Any = {"model": "mine", "messages": ASKED, "stream": way != "cancel"}

        def read(stream: Any) -> None:
            with stream:
                assert next(piece for piece in stream if piece.choices[0].delta.content)

        if way == "leave sync stream":
            stream = await anyio.to_thread.run_sync(lambda: sync.chat.completions.create(**given))
            await anyio.to_thread.run_sync(read, stream)
        else:
            async with anyio.create_task_group() as group:

                async def asking() -> None:
                    await client.chat.completions.create(**given)

                group.start_soon(asking)
                with anyio.fail_after(10):
                    while len(server.calls) < 2:  # noqa: ASYNC110 - the server has no event for this
                        await anyio.sleep(0.001)
                group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await server.calls[-1].hung_up.wait()
