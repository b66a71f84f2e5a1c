"""`podium init --preset server`: any server with OpenAI's API."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import STALL, Call, ChatServer, Reply, says, whole
from typer.testing import Result

from podium.cli import init as server_models

Podium = Callable[..., Result]
PLAN = '{"worker": 0, "subtask": "Think.", "access": []}\n{"worker": 1, "subtask": "Speak.", "access": [0]}\n'
MODELS = ["nomic-embed-text", "qwen2.5:7b", "llama3.3:70b", "whisper-1", "gemma3:27b", "phi4-mini"]


def serves(*models: str, **facts: Any) -> Callable[[Call], Reply]:
    """Return a script that lists models, plans if asked to, and otherwise answers "forty-two"."""

    def reply(call: Call) -> Reply:
        if call.method == "GET":
            return whole({"object": "list", "data": [{"id": model, **facts} for model in models]})
        is_planner = '"subtask"' in str(call.body["messages"])
        return says(call, PLAN if is_planner else "forty-two")

    return reply


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChatServer]:
    """Serve several models, in an empty folder, without variables of providers."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with ChatServer(serves(*MODELS)).in_thread() as serving:
        yield serving


def written() -> dict[str, Any]:
    """Return the tables of the file."""
    return tomllib.loads(Path("podium.toml").read_text())


def test_from_a_url_to_an_answer(podium: Podium, server: ChatServer) -> None:
    """Without a key: the largest models for text become workers, the largest plans, and a run answers."""
    made = podium("init", "--preset", "server", "--base-url", server.url.removesuffix("/v1"))
    assert made.exit_code == 0, made.output
    said = written()
    models = {name: worker["model"] for name, worker in said["workers"].items()}
    assert models == {"llama3-3-70b": "llama3.3:70b", "gemma3-27b": "gemma3:27b", "qwen2-5-7b": "qwen2.5:7b"}
    assert said["planner"] == {"worker": "llama3-3-70b"}
    assert said["endpoints"]["server"]["base_url"] == server.url
    assert not any("price" in worker for worker in said["workers"].values())
    assert "no price is known, so a limit on cost cannot hold" in made.stderr
    assert "# Other models of the server: phi4-mini" in Path("podium.toml").read_text()
    assert "model llama3.3:70b" in made.stderr
    assert "authorization" not in server.calls[0].headers
    checked = podium("check")
    assert checked.exit_code == 0, checked.output
    assert podium("run", "What is it?").stdout == "forty-two\n"


def test_one_model_makes_two_workers(podium: Podium, server: ChatServer) -> None:
    """With its context window and request format, as vLLM reports them, and the URL of the environment."""
    server.reply = serves("org/Qwen2.5-7B-Instruct", owned_by="vllm", max_model_len=32768)
    env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-loopback-0123456789"}
    made = podium("init", "--preset", "server", env=env)
    assert made.exit_code == 0, made.output
    said = written()
    assert set(said["workers"]) == {"solver", "checker"}
    for worker in said["workers"].values():
        assert (worker["model"], worker["context_window"]) == ("org/Qwen2.5-7B-Instruct", 32768)
    endpoint = said["endpoints"]["server"]
    assert (endpoint["provider"], endpoint["key_env"]) == ("vllm", "OPENAI_API_KEY")
    assert server.calls[0].headers["authorization"] == "Bearer sk-loopback-0123456789"
    assert "sk-loopback" not in Path("podium.toml").read_text() + made.output


def test_the_key_of_openai_is_sent_to_no_other_server(podium: Podium, server: ChatServer) -> None:
    """A key needs its variable to be named, if the URL is named on the command line."""
    env = {"OPENAI_API_KEY": "sk-loopback-0123456789", "MINE": "sk-mine-0123456789"}
    asked = ("init", "--preset", "server", "--force", "--base-url", server.url)
    assert podium(*asked, env=env).exit_code == 0
    assert podium(*asked, "--key-env", "MINE", env=env).exit_code == 0
    assert [call.headers.get("authorization") for call in server.calls] == [None, "Bearer sk-mine-0123456789"]
    assert written()["endpoints"]["server"]["key_env"] == "MINE"


BAD_LISTS = [
    (serves(), "lists no models: load a model there, or write the file with --offline"),
    (serves("nomic-embed-text"), "lists no model for chat, only nomic-embed-text: load a chat model there"),
    (lambda _: whole({"error": "no"}, status=401), "in --key-env SERVER_API_KEY"),
    (lambda _: whole({"error": "no"}, status=404), "check the path of the URL, which often ends in /v1"),
    (lambda _: whole("<html>"), "does not list its models: "),
    (lambda _: Reply((STALL,)), "start the server, correct the URL, or write the file"),
]
WRONG_OPTIONS: list[tuple[tuple[str, ...], str]] = [
    ((), "the preset 'server' needs the URL of the server: write it as in --base-url http"),
    (("--base-url", "http://user:word@host/v1"), "--base-url is invalid: "),
    (("--base-url", "http://127.0.0.1:9"), "(is the server up?): Connection refused; start the server"),
    (("--base-url", "127.0.0.1:9/v1"), "no connection to http://127.0.0.1:9/v1/models"),
    (("--base-url", "http://h/v1", "--key-env", "NOT_SET"), "variable NOT_SET is not set: set it to"),
    (("--base-url", "http://h/v1", "--key-env", "sk-0123456789"), "never the key itself"),
    (("--preset", "vllm", "--base-url", "http://h/v1"), "need --preset server: add this option, or leave"),
]


def test_what_is_wrong_is_told(podium: Podium, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server without models, and of options: with what to do; nothing is written, no key is shown."""
    monkeypatch.setattr(server_models, "SECONDS", 0.5)
    cases = [(reply, ("--base-url", server.url), told) for reply, told in BAD_LISTS]
    cases += [(serves(*MODELS), options, told) for options, told in WRONG_OPTIONS]
    for reply, options, told in cases:
        server.reply = reply
        result = podium("init", "--preset", "server", *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert told in result.stderr
        assert "\n" not in result.stderr.strip()
        assert "sk-0123456789" not in result.output
    assert not Path("podium.toml").exists()
