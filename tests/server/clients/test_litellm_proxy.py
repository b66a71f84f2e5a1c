"""LiteLLM's proxy in front of Podium, with the files of deploy/: keys of users there, audit here."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.scene import CONFIG, answers, free_port, until
from servers.capable import capable
from servers.chat_server import ChatServer

ROOT = Path(__file__).parents[3]
LITELLM = ROOT / ".venv-litellm" / "bin" / "litellm"
PODIUM = ROOT / ".venv" / "bin" / "podium"
KEYS = '''
from litellm.proxy._types import UserAPIKeyAuth

async def check(request, api_key):
    """Stands for LiteLLM's own table of keys, which needs PostgreSQL and Prisma."""
    return UserAPIKeyAuth(api_key=api_key, user_id={"sk-alice": "alice", "sk-bob": "bob"}[api_key])
'''


@contextmanager
def running(*command: str | Path, folder: Path, path: str, **env: str) -> Iterator[str]:
    """Run a server on a free port until the block ends; yield its URL when `path` answers."""
    port = free_port()
    with (folder / f"{port}.log").open("wb") as log:
        given: Any = {"cwd": folder, "env": {**os.environ, **env}, "stdout": log, "stderr": log}
        process = subprocess.Popen([*command, "--port", str(port)], **given)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: process.poll() is not None or answers(f"{url}{path}"), 90)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.skipif(not LITELLM.exists(), reason="run `make test-clients`: LiteLLM's proxy is not installed")
def test_a_proxy_in_front(tmp_path: Path) -> None:
    """Runs name the user of LiteLLM's key, whatever the client says; Podium's refusals reach the client."""
    config = ("--config", tmp_path / "podium.toml")
    for name in ("litellm.yaml", "litellm_user.py"):
        shutil.copy(ROOT / "deploy" / name, tmp_path)
    with (tmp_path / "litellm.yaml").open("a") as file:  # it ends with the general settings
        file.write("  custom_auth: litellm_keys.check\n")
    (tmp_path / "litellm_keys.py").write_text(KEYS)
    with ChatServer(capable).in_thread() as upstream:
        models = "[models.podium]\n[models.ultra]\npreset = 'ultra'\n"
        (tmp_path / "podium.toml").write_text(CONFIG.format(url=upstream.url, models=models, server=""))
        create = [PODIUM, "keys", "create", "litellm", "--rpm", "2", *config]
        key = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()
        with running(PODIUM, "serve", *config, folder=tmp_path, path="/readyz") as podium:
            settings = {"PODIUM_URL": f"{podium}/v1", "PODIUM_KEY": key, "LITELLM_MASTER_KEY": key}
            offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
            command = (LITELLM, "--config", "litellm.yaml", "--host", "127.0.0.1", "--telemetry", "False")
            ready = {"folder": tmp_path, "path": "/health/liveliness"}
            with running(*command, **ready, **settings, **offline) as litellm:
                asked = {"model": "podium", "messages": [{"role": "user", "content": "Hello"}]}
                own = {"user": "mallory", "safety_identifier": "mallory"}
                for user, status in (("alice", 200), ("bob", 200), ("alice", 429)):
                    about: Any = {"headers": {"authorization": f"Bearer sk-{user}"}, "timeout": 60}
                    answer = httpx2.post(f"{litellm}/v1/chat/completions", json={**asked, **own}, **about)
                    assert answer.status_code == status, answer.text
                    if status == 429:
                        assert "requests per minute" in answer.text
                        continue
                    assert answer.json()["choices"][0]["message"]["content"] == "Hello to you, too."
                    run = f"{podium}/v1/runs/{answer.json()['podium']['run_id']}"
                    shown = httpx2.get(run, headers={"authorization": f"Bearer {key}"})
                    assert shown.json()["user"] == user
