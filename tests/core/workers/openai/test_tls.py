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


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "trusted", "said"),
    [
        pytest.param("127.0.0.1", True, "hello", id="an authority that the environment names"),
        pytest.param("127.0.0.1", False, "False no secure connection", id="an unknown authority"),
        pytest.param("models.example", True, "False no secure connection", id="of another host"),
    ],
)
def test_trusts_the_certificates_that_the_environment_names(
    name: str, said: str, tmp_path: Path, *, trusted: bool
) -> None:
    """Of others nothing is sent, and the error says what to set."""
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
