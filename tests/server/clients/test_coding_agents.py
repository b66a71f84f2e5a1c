"""Coding agents call a tool in a folder and answer, configured as `docs/clients.md` says."""

import json
from pathlib import Path

import pytest
from server.chat.conftest import CONFIG
from server.clients.conftest import run
from server.clients.page import blocks
from servers.capable import PLAN, is_planning
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import serving

MODELS = """
[models.podium]

[models.one]
worker = "one"
"""
WRITES = {
    "exec_command": {"cmd": "echo hello > hello.txt"},
    "Write": {"file_path": "{folder}/hello.txt", "content": "hello"},
}
"""For a tool of each agent, the arguments that write the file."""


@pytest.mark.long
@pytest.mark.parametrize("model", ["podium", "one"])
@pytest.mark.parametrize("agent", ["Codex", "Claude Code"])
def test_an_agent_writes_a_file(agent: str, model: str, npm_programs: Path, tmp_path: Path) -> None:
    """The worker of the last step calls a tool of the agent, and gets its result in the same run."""
    repository = tmp_path / "repository"
    plans = 0

    def reply(call: Call) -> Reply:
        nonlocal plans
        if is_planning(call):
            plans += 1
            return says(call, PLAN)
        if any(message["role"] == "tool" for message in call.body["messages"]):
            return says(call, "The file is written.")
        names = {tool["function"]["name"] for tool in call.body.get("tools") or ()} & WRITES.keys()
        if not names:
            return says(call, "Nothing is known.")
        name = names.pop()
        arguments = json.dumps(WRITES[name]).replace("{folder}", str(repository))
        function = {"name": name, "arguments": arguments}
        calls = [{"id": "call_1", "type": "function", "function": function}]
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")

    *files, commands = (block.replace('"podium"', f'"{model}"', 1) for block in blocks(agent))
    with ChatServer(reply).in_thread() as upstream:
        config = CONFIG.format(url=upstream.url, models=MODELS, server="")
        with serving(config, tmp_path) as served:
            for text in files:  # of Codex
                (tmp_path / ".codex").mkdir()
                (tmp_path / ".codex" / "config.toml").write_text(
                    text.replace("http://localhost:8000", served.root)
                )
            script = commands.replace("http://localhost:8000", served.root).replace("…", "none")
            told = run(script.replace("--model podium", f"--model {model}"), tmp_path, npm_programs)
    assert "The file is written." in told
    assert (repository / "hello.txt").read_text().strip() == "hello"
    assert plans == (1 if model == "podium" else 0)


@pytest.mark.long
def test_codex_does_not_repeat_a_failed_run(npm_programs: Path, tmp_path: Path) -> None:
    """With the settings of the page, a run that fails is made once, and Codex shows the reason."""
    calls = 0

    def reply(call: Call) -> Reply:
        nonlocal calls
        calls += 1
        return whole({"error": {"message": "no such model"}}, status=404)

    file, commands = (block.replace('"podium"', '"one"', 1) for block in blocks("Codex"))
    with ChatServer(reply).in_thread() as upstream:
        config = CONFIG.format(url=upstream.url, models=MODELS, server="")
        with serving(config, tmp_path) as served:
            (tmp_path / ".codex").mkdir()
            text = file.replace("http://localhost:8000", served.root)
            (tmp_path / ".codex" / "config.toml").write_text(text)
            told = run(f"{commands} || true".replace("\n ||", " ||"), tmp_path, npm_programs)
    assert calls == 1, told
    assert "no such model" in told
