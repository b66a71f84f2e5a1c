"""Open WebUI, started as `docs/server.md` says, with a chat through its own API."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from server.clients.page import blocks
from servers.podium_server import Served

PROGRAMS = Path(__file__).parents[3] / ".venv-open-webui" / "bin"
_START_SECONDS = 150.0


@contextmanager
def open_webui(script: str, port: int, folder: Path) -> Iterator[httpx2.Client]:
    known = {
        "HOME": str(folder),
        "DATA_DIR": str(folder / "data"),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "NO_PROXY": "127.0.0.1",
        "WEBUI_AUTH": "False",
        "WEBUI_SECRET_KEY": "for this test",
        # without a network, no model for embeddings can be loaded
        "OFFLINE_MODE": "True",
        "RAG_EMBEDDING_ENGINE": "openai",
    }
    with (
        (folder / "log.txt").open("wb") as log,
        subprocess.Popen(
            ["/bin/bash", "-ec", script],
            cwd=folder,
            env=known,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                _wait(client, process, folder / "log.txt")
                user = client.post("/api/v1/auths/signin", json={"email": "", "password": ""}).json()
                client.headers["authorization"] = f"Bearer {user['token']}"
                yield client
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def _wait(client: httpx2.Client, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if client.get("/health").is_success:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.5)
    pytest.fail(f"Open WebUI did not start:\n{log.read_text()[-4000:]}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.skipif(not PROGRAMS.exists(), reason="run `make test-open-webui`: Open WebUI is not installed")
def test_a_chat(team: Served, tmp_path: Path) -> None:
    port = _free_port()
    script = blocks("Open WebUI")[0].replace("http://localhost:8000", team.root)
    script = script.replace("open-webui serve --port 3000", f"exec open-webui serve --port {port}")
    with open_webui(script, port, tmp_path) as client:
        models = client.get("/api/models").json()["data"]
        assert {"team", "one"} <= {model["id"] for model in models}
        asked = {"messages": [{"role": "user", "content": "Say hello."}], "stream": True}
        text = client.post("/api/chat/completions", json={"model": "team", **asked}).text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
    assert "Answer the question." in "".join(delta.get("reasoning_content") or "" for delta in deltas)
    assert "".join(delta.get("content") or "" for delta in deltas)
