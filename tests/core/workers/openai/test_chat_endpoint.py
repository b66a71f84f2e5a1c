"""What an endpoint accepts, opens, shares, hides and trusts."""

import os
import ssl
import subprocess
import sys
from pathlib import Path
from traceback import format_exception
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
import trustme
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import ChatWorker, Endpoint, Message
from podium.errors import ConfigError, WorkerUnavailable
from podium.secrets import scrub
from podium.workers import Request, complete
from podium.workers.openai.http import find_proxy

pytestmark = pytest.mark.anyio
URL, KEY = "http://host/v1", "sk-abcdefghijklmnop"
WHY = Request(messages=(Message("user", "why?"),))


def hello(call: Call) -> Reply:
    return says(call, "hello")


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("http://user:hunter22@host/v1", {}, "user name or password"),
        ("http://host/v1?key=hunter22", {}, "query or fragment"),
        ("https://host:hunter22/v1", {}, "not an http"),
        ("https://host/v1 ?key=hunter22", {}, "space"),
        ("http:///v1", {}, "not an http"),
        ("http://host:99999/v1", {}, "not an http"),
        ("", {}, "not an http"),
        ("https://host/v1/chat/completions", {}, "leave that out"),
        (URL, {"api_key": " "}, "api_key is empty, or has"),
        (URL, {"api_key": "sk-hunter22\n"}, "api_key is empty, or has"),
        (URL, {"api_key": "sk-hunter22…"}, "api_key is empty, or has"),
        (URL, {"headers": {"X-Own": "hunter22\r\nHost: elsewhere"}}, "'X-Own'"),
    ],
)
def test_refuses_wrong_urls_keys_and_headers(url: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        Endpoint(url, **options)
    assert "hunter22" not in "".join(format_exception(caught.value))


def test_a_password_of_a_proxy_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter22%2Fhunter22@proxy:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert find_proxy("https://api.example.org/v1") is not None
    for told in ("hunter22%2Fhunter22", "hunter22/hunter22"):
        assert scrub(f"no way through {told}") == "no way through [secret]"


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
        assert ([call.body["model"] for call in server.calls], server.connections) == (["one", "two"], 1)
        with anyio.fail_after(5):
            while server.open_connections:  # noqa: ASYNC110  (the server's side of a closed socket)
                await anyio.sleep(0.001)


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


async def test_a_proxy_is_told_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of HTTPS gets its own password, and neither the key nor the headers of the server."""
    async with ChatServer(lambda call: whole("no", status=407)) as proxy:
        for user, sent in (("", None), ("me:too%2F@", "Basic bWU6dG9vLw==")):
            monkeypatch.setenv("https_proxy", f"http://{user}{urlsplit(proxy.url).netloc}")
            endpoint = Endpoint("https://models.invalid/v1", api_key=KEY, headers={"X-Own": "another-secret"})
            with pytest.raises(WorkerUnavailable, match="407"):
                await complete(ChatWorker("m", endpoint=endpoint), WHY)
            headers = proxy.calls[-1].headers
            assert (proxy.calls[-1].method, headers.get("proxy-authorization")) == ("CONNECT", sent)
            assert not headers.keys() & {"authorization", "x-own"}


async def test_refuses_a_proxy_it_cannot_speak_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"'socks5'.*NO_PROXY"):
        await complete(ChatWorker("m", endpoint=Endpoint("http://models.invalid/v1")), WHY)


ASK = """
import sys, anyio
from podium.errors import WorkerUnavailable
from podium.types import Message
from podium.workers import ChatWorker, Endpoint, Request, complete

async def ask():
    try:
        worker = ChatWorker("m", endpoint=Endpoint(sys.argv[1]))
        print((await complete(worker, Request(messages=(Message("user", "why?"),)))).text)
    except WorkerUnavailable as error:
        print(error.maybe_paid, error)

anyio.run(ask)
"""
"""Run in a process of its own: the certificates are read once per process."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "trusted", "said"),
    [
        pytest.param("127.0.0.1", True, "hello", id="an authority that the environment names"),
        pytest.param("127.0.0.1", False, "False no secure connection", id="an unknown authority"),
        pytest.param("models.example", True, "False no secure connection", id="of another host"),
    ],
)
def test_trusts_certificates_of_the_environment(
    name: str, said: str, tmp_path: Path, *, trusted: bool
) -> None:
    authority, path = trustme.CA(), tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    env = {name: value for name, value in os.environ.items() if not name.startswith("SSL_CERT")}
    env |= {"SSL_CERT_FILE": str(path)} if trusted else {}
    with ChatServer(lambda call: says(call, "hello"), tls=context).in_thread() as server:
        command = [sys.executable, "-W", "error", "-c", ASK, server.url]
        told = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30).stdout
        assert told.startswith(said)
        assert said == "hello" or (server.calls == [] and "SSL_CERT_FILE" in told)
