"""Open WebUI, started as `docs/server.md` says, with a chat through its own API."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.clients.conftest import blocks
from server.scene import answers, free_port, until
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
    url, told = f"http://127.0.0.1:{port}", folder / "log.txt"
    given: Any = {"cwd": folder, "env": known, "start_new_session": True}
    with (
        told.open("wb") as log,
        subprocess.Popen(["/bin/bash", "-ec", script], stdout=log, stderr=log, **given) as process,
    ):
        try:
            with httpx2.Client(base_url=url, timeout=30) as client:
                until(lambda: process.poll() is not None or answers(f"{url}/health"), _START_SECONDS)
                assert answers(f"{url}/health"), told.read_text()[-4000:]
                user = client.post("/api/v1/auths/signin", json={"email": "", "password": ""}).json()
                client.headers["authorization"] = f"Bearer {user['token']}"
                yield client
        finally:
            os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.skipif(not PROGRAMS.exists(), reason="run `make test-open-webui`: Open WebUI is not installed")
def test_a_chat(team: Served, tmp_path: Path) -> None:
    port = free_port()
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
