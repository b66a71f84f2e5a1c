"""Which certificates an endpoint trusts."""

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from servers.chat_server import ChatServer, says

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


def ask(url: str, **trusted: Path) -> str:
    """Ask the server at `url` with these environment variables, and return the answer or the error."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SSL_CERT")}
    env = inherited | {name: str(path) for name, path in trusted.items()}
    command = [sys.executable, "-W", "error", "-c", ASK, url]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30).stdout


def serving(authority: trustme.CA, *names: str) -> ChatServer:
    """Return a server with a certificate for `names`, signed by `authority`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return ChatServer(lambda call: says(call, "hello"), tls=context)


@pytest.fixture
def authority(tmp_path: Path) -> tuple[trustme.CA, Path]:
    """Return a certificate authority, and the file of its certificate."""
    authority, path = trustme.CA(), tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return authority, path


@pytest.mark.long
def test_trusts_the_authorities_that_the_environment_names(authority: tuple[trustme.CA, Path]) -> None:
    """`SSL_CERT_FILE` names the file of trusted certificates."""
    issuer, path = authority
    with serving(issuer, "127.0.0.1").in_thread() as server:
        assert ask(server.url, SSL_CERT_FILE=path) == "hello\n"


@pytest.mark.long
def test_refuses_an_unknown_authority(authority: tuple[trustme.CA, Path]) -> None:
    """Without it the certificate is not trusted: nothing is sent, and the error says what to set."""
    issuer, _ = authority
    with serving(issuer, "127.0.0.1").in_thread() as server:
        said = ask(server.url)
        assert said.startswith("False no secure connection")
        assert "SSL_CERT_FILE" in said
        assert server.calls == []


@pytest.mark.long
def test_refuses_the_certificate_of_another_host(authority: tuple[trustme.CA, Path]) -> None:
    """A trusted authority is not enough: the certificate must be the server's own."""
    issuer, path = authority
    with serving(issuer, "models.example").in_thread() as server:
        assert ask(server.url, SSL_CERT_FILE=path).startswith("False no secure connection")
        assert server.calls == []
