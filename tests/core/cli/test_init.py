"""`podium init`: a config to start from, with the models that endpoints list."""

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import RESET, STALL, Call, ChatServer, Reply, says, whole
from typer.testing import Result

from podium.cli import init
from podium.config import load_config
from podium.errors import ConfigError

Podium = Callable[..., Result]
NAMES = ("OPENAI", "ANTHROPIC", "GEMINI")
LISTS: dict[str, list[Any]] = {
    "OPENAI": [
        {"id": "gpt-9", "created": 1_900_000_000},
        {"id": "gpt-10", "created": 1_950_000_000},
        {"id": "gpt-10-mini", "created": 1_960_000_000},
        {"id": "text-embedding-9", "created": 1_980_000_000},
        {"id": 'gpt-99"\nevil = "x', "created": 1_990_000_000},
        "gpt-98",
    ],
    "ANTHROPIC": [
        {"id": "claude-grand-9", "created_at": "2031-05-01T00:00:00Z", "type": "model"},
        {"id": "claude-grand-8", "created_at": "2030-05-01T00:00:00Z", "type": "model"},
        {"id": "claude-odd", "created_at": "some day", "type": "model"},
    ],
    "GEMINI": [{"id": f"models/gemini-{v}"} for v in ("9.5-pro", "10.1-pro", "10.2-flash-lite")],
}
PLAN = '{"worker": 0, "subtask": "Think.", "access": []}\n{"worker": 1, "subtask": "Speak.", "access": [0]}\n'
MODELS = [
    {"id": name} for name in ("nomic-embed-text", "qwen2.5:7b", "llama3.3:70b", "gemma3:27b", "phi4-mini")
]
KEY = "sk-loopback-0123456789"


def lists(models: list[Any]) -> Callable[[Call], Reply]:
    """Return a script that lists models, plans if asked to, and otherwise answers "forty-two"."""

    def reply(call: Call) -> Reply:
        if call.method == "GET":
            return whole({"object": "list", "data": models})
        return says(call, PLAN if '"subtask"' in str(call.body["messages"]) else "forty-two")

    return reply


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder, without variables of providers and servers of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init, "LOCAL", {9: "vLLM"})
    for name in (*NAMES, "SAKANA"):
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ChatServer]]:
    """Serve the lists of all three providers, whose keys are set."""
    with ExitStack() as stack:
        running = {name: stack.enter_context(ChatServer(lists(LISTS[name])).in_thread()) for name in NAMES}
        for name, server in running.items():
            # one as the provider's own client has it, without the path
            url = server.url.removesuffix("/v1") if name == "ANTHROPIC" else server.url
            monkeypatch.setenv(f"{name}_BASE_URL", url)
            monkeypatch.setenv(f"{name}_API_KEY", f"sk-of-{name.lower()}-0123456789")
        yield running


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(lists(MODELS)).in_thread() as serving:
        yield serving


def written() -> dict[str, Any]:
    return tomllib.loads(Path("podium.toml").read_text())


def urls() -> list[str]:
    return re.findall(r'base_url = "(.*?)"', Path("podium.toml").read_text())


def port_of(server: ChatServer) -> int:
    return int(server.url.rsplit(":", 1)[1].split("/")[0])


def test_presets_make_a_conductor(podium: Podium, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "SAKANA"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    for preset in ("providers", "vllm", "fugu", "offline"):
        assert podium("init", "--offline", "--force", "--preset", preset).exit_code == 0
        assert load_config("podium.toml").conductor().pool
    podium("init", "--offline", "--force", "--preset", "fugu", env={"SAKANA_BASE_URL": "http://localhost:9/"})
    assert urls() == ["http://localhost:9/v1"]
    assert podium("init", "--force", "--preset", "conductor").exit_code == 0
    with pytest.raises(ConfigError, match=r"'conductor' needs podium-train, which is not installed: .*train"):
        load_config("podium.toml")


def test_the_newest_chat_model_of_each_endpoint(podium: Podium, providers: dict[str, ChatServer]) -> None:
    result = podium("init")
    text, said = Path("podium.toml").read_text(), written()
    models = {name: worker["model"] for name, worker in said["workers"].items()}
    assert models == {"gpt": "gpt-10", "claude": "claude-grand-9", "gemini": "gemini-10.1-pro"}
    assert "gpt-10" in result.stderr
    assert len(text.splitlines()) <= 20
    assert providers["ANTHROPIC"].calls[0].headers["x-api-key"] == "sk-of-anthropic-0123456789"
    assert "x-api-key" not in providers["OPENAI"].calls[0].headers
    assert "sk-of" not in text + result.output
    assert load_config("podium.toml").conductor()


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(whole({"error": "no"}, status=401), id="refused"),
        pytest.param(whole({"data": [{"id": "text-embedding-9"}]}), id="no chat model"),
        pytest.param(Reply((RESET,)), id="reset"),
    ],
)
def test_an_endpoint_that_lists_nothing_is_commented_out(
    podium: Podium, providers: dict[str, ChatServer], reply: Reply
) -> None:
    providers["OPENAI"].reply = lambda _: reply
    result = podium("init")
    said = written()
    assert (set(said["workers"]), said["planner"]["worker"]) == ({"claude", "gemini"}, "claude")
    assert "openai: no model found (" in result.stderr
    assert '# gpt = { endpoint = "openai", model = "CHOOSE-A-MODEL"' in Path("podium.toml").read_text()
    assert urls() == [server.url for server in providers.values()]
    assert load_config("podium.toml").conductor()


def test_without_keys(podium: Podium, monkeypatch: pytest.MonkeyPatch) -> None:
    result = podium("init")
    assert result.exit_code == 2
    assert "no key of a provider is set (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY)" in result.stderr
    assert "on this machine (vLLM at port 9)" in result.stderr
    assert not Path("podium.toml").exists()
    models = [{"id": "qwen2.5:7b", "owned_by": "library"}, {"id": "qwen2.5:3b"}]
    with ChatServer(lists(models)).in_thread() as ollama, ChatServer(lambda _: whole({})).in_thread() as web:
        monkeypatch.setattr(init, "LOCAL", {9: "vLLM", port_of(web): "llama.cpp", port_of(ollama): "Ollama"})
        result = podium("init")
    assert [worker["model"] for worker in written()["workers"].values()] == ["qwen2.5:7b", "qwen2.5:3b"]
    assert urls() == [f"http://localhost:{port_of(ollama)}/v1"]
    assert f"URL http://localhost:{port_of(ollama)}/v1, found on this machine" in result.stderr


def test_offline_asks_nobody(podium: Podium, providers: dict[str, ChatServer]) -> None:
    result = podium("init", "--offline")
    assert "CHOOSE-A-MODEL" in Path("podium.toml").read_text()
    assert urls() == [server.url for server in providers.values()]
    assert all(f"URL {server.url} from" in result.stderr for server in providers.values())
    assert podium("init").exit_code == 2
    assert not any(server.calls for server in providers.values())


def test_from_the_url_of_a_server_to_an_answer(podium: Podium, server: ChatServer) -> None:
    made = podium("init", "--preset", "server", "--base-url", server.url.removesuffix("/v1"))
    assert made.exit_code == 0, made.output
    said = written()
    models = {name: worker["model"] for name, worker in said["workers"].items()}
    assert models == {"llama3-3-70b": "llama3.3:70b", "gemma3-27b": "gemma3:27b", "qwen2-5-7b": "qwen2.5:7b"}
    assert (said["planner"], urls()) == ({"worker": "llama3-3-70b"}, [server.url])
    assert not any("price" in worker for worker in said["workers"].values())
    assert "no price is known, so a limit on cost cannot hold" in made.stderr
    assert "# Other models of the server: phi4-mini" in Path("podium.toml").read_text()
    assert "authorization" not in server.calls[0].headers
    assert (podium("check").exit_code, podium("run", "What is it?").stdout) == (0, "forty-two\n")


def test_the_key_of_openai_is_sent_to_no_other_server(podium: Podium, server: ChatServer) -> None:
    env = {"OPENAI_API_KEY": KEY, "MINE": "sk-mine-0123456789"}
    asked = ("init", "--preset", "server", "--force", "--base-url", server.url)
    assert podium(*asked, env=env).exit_code == 0
    assert podium(*asked, "--key-env", "MINE", env=env).exit_code == 0
    assert [call.headers.get("authorization") for call in server.calls] == [None, "Bearer sk-mine-0123456789"]
    assert written()["endpoints"]["server"]["key_env"] == "MINE"


BAD_LISTS = [
    (lists([]), "lists no models: load a model there, or write the file with --offline"),
    (lists(MODELS[:1]), "lists no model for chat, only nomic-embed-text: load a chat model there"),
    (lambda _: whole({"error": "no"}, status=401), "in --key-env SERVER_API_KEY"),
    (lambda _: whole({"error": "no"}, status=404), "check the path of the URL, which often ends in /v1"),
    (lambda _: Reply((STALL,)), "start the server, correct the URL, or write the file"),
]
WRONG_OPTIONS: list[tuple[tuple[str, ...], str]] = [
    ((), "the preset 'server' needs the URL of the server: write it as in --base-url http"),
    (("--base-url", "http://user:word@host/v1"), "--base-url is invalid: "),
    (("--base-url", "http://127.0.0.1:9"), "(is the server up?): Connection refused; start the server"),
    (("--base-url", "http://h/v1", "--key-env", "NOT_SET"), "variable NOT_SET is not set: set it to"),
    (("--base-url", "http://h/v1", "--key-env", "sk-0123456789"), "never the key itself"),
    (("--preset", "vllm", "--base-url", "http://h/v1"), "need --preset server: add this option, or leave"),
    (("none/podium.toml", "--offline", "--base-url", "http://h/v1"), "cannot be written"),
]


def test_what_is_wrong_is_told(podium: Podium, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "SECONDS", 0.3)
    cases = [(reply, ("--base-url", server.url), told) for reply, told in BAD_LISTS]
    cases += [(lists(MODELS), options, told) for options, told in WRONG_OPTIONS]
    for reply, options, told in cases:
        server.reply = reply
        result = podium("init", "--preset", "server", *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr
        assert "\n" not in result.stderr.strip()
        assert "sk-0123456789" not in result.output
    wrong = podium("init", "--offline", env={"OPENAI_BASE_URL": "localhost:8000"})
    assert (wrong.exit_code, "OPENAI_BASE_URL is invalid: base_url" in wrong.stderr) == (2, True)
    assert not Path("podium.toml").exists()
