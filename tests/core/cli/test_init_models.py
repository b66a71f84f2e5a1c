"""`podium init` asks endpoints for their models."""

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import RESET, STALL, Call, ChatServer, Reply, whole
from typer.testing import Result

from podium.cli import init as model_proposals
from podium.config import load_config

Podium = Callable[..., Result]
NAMES = ("OPENAI", "ANTHROPIC", "GEMINI")
LISTS: dict[str, Any] = {
    "OPENAI": {
        "data": [
            {"id": "gpt-9", "created": 1_900_000_000},
            {"id": "gpt-10", "created": 1_950_000_000},
            {"id": "gpt-10-mini", "created": 1_960_000_000},
            {"id": "gpt-10-realtime", "created": 1_970_000_000},
            {"id": "text-embedding-9", "created": 1_980_000_000},
            {"id": 'gpt-99"\nevil = "x', "created": 1_990_000_000},
            {"created": 1_990_000_000},
            "gpt-98",
        ]
    },
    "ANTHROPIC": {
        "data": [
            {"id": "claude-grand-9", "created_at": "2031-05-01T00:00:00Z", "type": "model"},
            {"id": "claude-grand-8", "created_at": "2030-05-01T00:00:00Z", "type": "model"},
            {"id": "claude-odd", "created_at": "some day", "type": "model"},
        ]
    },
    "GEMINI": {"data": [{"id": f"models/gemini-{v}"} for v in ("9.5-pro", "10.1-pro", "10.2-flash-lite")]},
}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ChatServer]]:
    """Serve the lists of all three providers, whose keys are set."""
    with ExitStack() as stack:
        running = {}
        for name in NAMES:
            reply = _listing(name)
            running[name] = stack.enter_context(ChatServer(reply).in_thread())
            url = running[name].url
            # one as the provider's own client has it, without the path
            monkeypatch.setenv(f"{name}_BASE_URL", url.removesuffix("/v1") if name == "ANTHROPIC" else url)
            monkeypatch.setenv(f"{name}_API_KEY", f"sk-of-{name.lower()}-0123456789")
        yield running


def _listing(name: str) -> Callable[[Call], Reply]:
    return lambda call: whole(LISTS[name] if call.method == "GET" else {}, status=200)


def _init(podium: Podium, tmp_path: Path, *options: str) -> tuple[str, Result]:
    path = tmp_path / "podium.toml"
    result = podium("init", *options, str(path))
    assert result.exit_code == 0, result.output
    return path.read_text(), result


def test_the_newest_chat_model_of_each_endpoint_is_proposed(
    podium: Podium, tmp_path: Path, servers: dict[str, ChatServer]
) -> None:
    """By date where the endpoint says one, else by the version in the name; no embeddings, no small ones."""
    text, result = _init(podium, tmp_path)
    models = {name: worker["model"] for name, worker in tomllib.loads(text)["workers"].items()}
    assert models == {"gpt": "gpt-10", "claude": "claude-grand-9", "gemini": "gemini-10.1-pro"}
    assert 'CHOOSE-A-MODEL"' not in text
    assert "gpt-10" in result.stderr
    assert len(text.splitlines()) <= 20
    assert all(
        [call.path.endswith("/models") for call in server.calls] == [True] for server in servers.values()
    )
    headers = servers["ANTHROPIC"].calls[0].headers
    assert headers["x-api-key"] == "sk-of-anthropic-0123456789"
    assert "anthropic-version" in headers
    assert "x-api-key" not in servers["OPENAI"].calls[0].headers
    assert "sk-of" not in text + result.output
    assert load_config(tmp_path / "podium.toml").conductor()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(whole({"error": "no"}, status=401), id="refused"),
        pytest.param(whole("not JSON"), id="garbage"),
        pytest.param(whole({"data": [{"id": "text-embedding-9"}]}), id="no chat model"),
        pytest.param(Reply((RESET,)), id="reset"),
        pytest.param(Reply((STALL,)), id="stalled"),
    ],
)
def test_an_endpoint_that_lists_nothing_is_commented_out(
    podium: Podium,
    tmp_path: Path,
    servers: dict[str, ChatServer],
    reply: Reply,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are proposed, one of them plans, and the reason is told; nothing waits for long."""
    monkeypatch.setattr(model_proposals, "SECONDS", 0.2)
    servers["OPENAI"].reply = lambda _: reply
    text, result = _init(podium, tmp_path)
    said = tomllib.loads(text)
    assert set(said["workers"]) == {"claude", "gemini"}
    assert set(said["endpoints"]) == {"anthropic", "gemini"}
    assert said["planner"]["worker"] == "claude"
    assert "openai: no model found (" in result.stderr
    assert '# gpt = { endpoint = "openai", model = "CHOOSE-A-MODEL"' in text
    assert _urls(text) == [server.url for server in servers.values()]
    assert load_config(tmp_path / "podium.toml").conductor()


def test_without_keys_nothing_is_written(
    podium: Podium, tmp_path: Path, servers: dict[str, ChatServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No provider is asked; the error says what was looked for, and what to do."""
    monkeypatch.setattr(model_proposals, "LOCAL", {9: "vLLM"})
    for name in NAMES:
        monkeypatch.delenv(f"{name}_API_KEY")
    result = podium("init", str(tmp_path / "podium.toml"))
    assert result.exit_code == 2
    assert not any(server.calls for server in servers.values())
    assert "no key of a provider is set (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY)" in result.stderr
    assert "on this machine (vLLM at port 9)" in result.stderr
    assert not (tmp_path / "podium.toml").exists()


def test_without_keys_a_server_of_this_machine_is_found(
    podium: Podium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its models become workers; a port without a server, or with another, is passed over."""
    for name in NAMES:
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    lists = {"data": [{"id": "qwen2.5:7b", "owned_by": "library"}, {"id": "qwen2.5:3b"}]}
    with (
        ChatServer(lambda _: whole(lists)).in_thread() as ollama,
        ChatServer(lambda _: whole({})).in_thread() as web,
    ):
        ports = {9: "vLLM", _port(web): "llama.cpp", _port(ollama): "Ollama"}
        monkeypatch.setattr(model_proposals, "LOCAL", ports)
        text, result = _init(podium, tmp_path)
    said = tomllib.loads(text)
    assert [worker["model"] for worker in said["workers"].values()] == ["qwen2.5:7b", "qwen2.5:3b"]
    assert said["endpoints"]["server"]["base_url"] == f"http://localhost:{_port(ollama)}/v1"
    assert f"URL http://localhost:{_port(ollama)}/v1, found on this machine" in result.stderr
    assert len(text.splitlines()) <= 20


def _port(server: ChatServer) -> int:
    return int(server.url.rsplit(":", 1)[1].split("/")[0])


def test_offline_asks_nobody(podium: Podium, tmp_path: Path, servers: dict[str, ChatServer]) -> None:
    """Even where keys are set; the URLs of the environment are in the file. Nor does a file that is there."""
    text, result = _init(podium, tmp_path, "--offline")
    assert "CHOOSE-A-MODEL" in text
    assert _urls(text) == [server.url for server in servers.values()]
    assert all(f"URL {server.url} from" in result.stderr for server in servers.values())
    assert podium("init", str(tmp_path / "podium.toml")).exit_code == 2
    assert not any(server.calls for server in servers.values())


def _urls(text: str) -> list[str]:
    return re.findall(r'base_url = "(.*?)"', text)


def test_a_wrong_url_in_the_environment_is_an_error(
    podium: Podium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the variable, and no file is written."""
    for url, options in (("localhost:8000", ()), ("http://[", ("--offline",)), ("http://h/v1?key=1", ())):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        result = podium("init", *options, str(tmp_path / "podium.toml"))
        assert result.exit_code == 2
        assert "OPENAI_BASE_URL is invalid: base_url" in result.stderr
    assert not (tmp_path / "podium.toml").exists()
