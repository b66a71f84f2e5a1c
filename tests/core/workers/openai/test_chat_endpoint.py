"""What an endpoint accepts, opens, shares and hides."""

import threading
from traceback import format_exception
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import Conductor, RulePlanner, ScriptedWorker
from podium.errors import ConfigError, WorkerUnavailable
from podium.secrets import scrub
from podium.types import Message
from podium.workers import ChatWorker, Endpoint, Request, Timeouts, complete
from podium.workers.openai.http import find_proxy

KEY = "sk-abcdefghijklmnop"
WHY = Request(messages=(Message("user", "why?"),))


def hello(call: Call) -> Reply:
    """Answer in a word."""
    return says(call, "hello")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://user:hunter22@host/v1", "user name or password"),
        ("http://host/v1?key=hunter22", "query or fragment"),
        ("http://host/v1#hunter22", "query or fragment"),
        ("https://host:hunter22/v1", "not an http"),
        ("user:hunter22@host/v1", "not an http"),
        ("https://host/v1 ?key=hunter22", "space"),
        ("ftp://host/v1", "not an http"),
        ("http:///v1", "not an http"),
        ("http://host:99999/v1", "not an http"),
        ("http://[::1/v1", "not an http"),
        ("", "not an http"),
        ("https://host/v1/chat/completions", "leave that out"),
    ],
)
def test_refuses_a_wrong_url(url: str, reason: str) -> None:
    """A URL that cannot be meant is refused with the reason, without what it gives away."""
    with pytest.raises(ConfigError, match=reason) as caught:
        Endpoint(url)
    assert "hunter22" not in "".join(format_exception(caught.value))


def test_a_password_of_a_proxy_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names it; no text of Podium's shows it, encoded or not."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter22%2Fhunter22@proxy:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert find_proxy("https://api.example.org/v1") is not None
    for told in ("hunter22%2Fhunter22", "hunter22/hunter22"):
        assert scrub(f"no way through {told}") == "no way through [secret]"


@pytest.mark.parametrize("wrong", ["https://user:hunter22@host/v1", "https://host/v1?api_key=hunter22"])
def test_a_url_in_place_of_an_object_is_not_quoted(wrong: Any) -> None:
    """Where a worker, planner or endpoint belongs, a URL with a key in it is refused without it."""
    worker = ScriptedWorker("w", "yes")
    for build in (
        lambda: ChatWorker("m", endpoint=wrong),
        lambda: Conductor(wrong, [worker]),
        lambda: Conductor(RulePlanner(), [wrong]),
    ):
        with pytest.raises(ConfigError) as caught:
            build()
        assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"api_key": " "}, "api_key is empty, or has"),
        ({"api_key": "sk-hunter22\n"}, "api_key is empty, or has"),
        ({"api_key": "sk-hunter22…"}, "api_key is empty, or has"),
        ({"headers": {"X-Own": "hunter22\r\nHost: elsewhere"}}, "'X-Own'"),
    ],
)
def test_refuses_keys_and_headers_that_are_none(options: dict[str, Any], reason: str) -> None:
    """One with stray characters, or that would split the request, is refused, and not shown."""
    with pytest.raises(ConfigError, match=reason) as caught:
        Endpoint("http://host/v1", **options)
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(("name", "seconds"), [("connect", 0), ("idle", -1), ("total", float("nan"))])
def test_refuses_a_timeout_that_is_none(name: str, seconds: float) -> None:
    """A timeout is a positive number of seconds."""
    with pytest.raises(ConfigError, match=f"timeout {name}"):
        Timeouts(**{name: seconds})


def test_shows_no_key() -> None:
    """Neither an endpoint nor a worker shows its key."""
    endpoint = Endpoint("http://host/v1/", api_key=KEY, headers={"X-Own": "another-secret"})
    shown = f"{endpoint!r} {endpoint} {ChatWorker('m', endpoint=endpoint)!r}"
    assert "http://host/v1" in shown
    assert "another-secret" not in shown
    assert KEY not in shown


@pytest.mark.anyio
async def test_workers_share_the_connections_of_their_endpoint() -> None:
    """One after the other they use one, which stays open until the last of them leaves, and no longer."""
    async with ChatServer(hello) as server:
        endpoint = Endpoint(server.url)
        one, two = ChatWorker("one", endpoint=endpoint), ChatWorker("two", endpoint=endpoint)
        async with one:
            async with two:
                await complete(one, WHY)
                await complete(two, WHY)
            assert server.open_connections == 1
        assert [call.body["model"] for call in server.calls] == ["one", "two"]
        assert server.connections == 1
        with anyio.fail_after(5):
            while server.open_connections:  # noqa: ASYNC110  (the server's side of a closed socket)
                await anyio.sleep(0.001)


def test_threads_with_loops_of_their_own_share_a_worker() -> None:
    """One worker serves many threads at once, each with its own loop and connections."""
    texts: list[str] = []

    async def use(worker: ChatWorker) -> None:
        async with worker:
            for _ in range(20):
                texts.append((await complete(worker, WHY)).text)  # noqa: PERF401  (one call after the other)

    with ChatServer(hello).in_thread() as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url))
        threads = [threading.Thread(target=anyio.run, args=(use, worker)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert texts == ["hello"] * 80


def test_sends_no_cookies_back() -> None:
    """What a server would remember of one call is not told to it in another."""

    async def use(url: str) -> None:
        async with ChatWorker("m", endpoint=Endpoint(url)) as worker:
            await complete(worker, WHY)
            await complete(worker, WHY)

    def script(call: Call) -> Reply:
        first, *rest = hello(call).parts
        assert isinstance(first, bytes)
        return Reply((first.replace(b"\r\n", b"\r\nSet-Cookie: who=you\r\n", 1), *rest))

    with ChatServer(script).in_thread() as server:
        anyio.run(use, server.url.replace("127.0.0.1", "localhost"))  # jars keep no cookies of an IP address
    assert all("cookie" not in call.headers for call in server.calls)


@pytest.mark.anyio
async def test_takes_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts elsewhere are reached through it, except those of `NO_PROXY` and this machine."""
    worker = ChatWorker("m", endpoint=Endpoint("http://models.invalid/v1"))
    async with ChatServer(hello) as proxy, ChatServer(hello) as server:
        monkeypatch.setenv("http_proxy", f"http://{urlsplit(proxy.url).netloc}")
        assert (await complete(worker, WHY)).text == "hello"
        assert (await complete(ChatWorker("m", endpoint=Endpoint(server.url)), WHY)).text == "hello"
        monkeypatch.setenv("no_proxy", "models.invalid")
        with pytest.raises(WorkerUnavailable, match="no connection"):
            await complete(worker, WHY)
    assert [call.path for call in proxy.calls] == ["http://models.invalid/v1/chat/completions"]


@pytest.mark.anyio
async def test_a_proxy_is_told_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of HTTPS gets its own password, and neither the key nor the headers of the server."""
    async with ChatServer(lambda call: whole("no", status=407)) as proxy:
        for user, sent in (("", None), ("me:too%2F@", "Basic bWU6dG9vLw==")):
            monkeypatch.setenv("https_proxy", f"http://{user}{urlsplit(proxy.url).netloc}")
            endpoint = Endpoint("https://models.invalid/v1", api_key=KEY, headers={"X-Own": "another-secret"})
            with pytest.raises(WorkerUnavailable, match="407"):
                await complete(ChatWorker("m", endpoint=endpoint), WHY)
            headers = proxy.calls[-1].headers
            assert proxy.calls[-1].method == "CONNECT"
            assert headers.get("proxy-authorization") == sent
            assert not headers.keys() & {"authorization", "x-own"}


@pytest.mark.anyio
async def test_refuses_a_proxy_it_cannot_speak_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of another kind is named, with what to do."""
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"'socks5'.*NO_PROXY"):
        await complete(ChatWorker("m", endpoint=Endpoint("http://models.invalid/v1")), WHY)
