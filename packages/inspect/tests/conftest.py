"""Fixtures of this package's tests: a scripted server, its config, and folders for logs and caches."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says

CONFIG = """
endpoints.lab = {{ base_url = "{url}", provider = "vllm" }}
workers.small = {{ endpoint = "lab", model = "small", price = {{ input = 1.0, output = 2.0 }} }}
planner.type = "rule"
"""
QUESTIONS = [
    {
        "question": f"What is {n} + {n}?",
        "answer": str(2 * n),
        "kind": ("even", "odd")[n % 2],
        "grader": "math",
    }
    for n in range(4)
]


def adds(call: Call) -> Reply:
    """Answer a sum; one of them is wrong."""
    words = str(call.body["messages"][-1]["content"]).split("What is ")[-1].split()
    number = int(words[0])
    return says(call, f"So \\boxed{{{2 * number if number else 7}}}.")


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "INSPECT_LOG_DIR", "INSPECT_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(adds).in_thread() as serving:
        yield serving


@pytest.fixture
def config(server: ChatServer, tmp_path: Path) -> Path:
    path = tmp_path / "podium.toml"
    path.write_text(CONFIG.format(url=server.url))
    return path


@pytest.fixture
def sums(tmp_path: Path) -> str:
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS))
    return str(path)
