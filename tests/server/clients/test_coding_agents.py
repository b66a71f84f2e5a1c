"""Coding agents call a tool in a folder and answer, configured as `docs/server.md` says."""

import json
from pathlib import Path

import pytest
from server.clients.conftest import blocks, run
from server.scene import Serve
from servers.capable import is_planning
from servers.chat_server import Call, ChatServer, Reply, says, whole

MODELS = '[models.podium]\n[models.one]\nworker = "one"\n'
FILE = "def add(a, b):\n    return a {} b\n"
TEST = "python3 -B -c 'import calc; assert calc.add(2, 2) == 4' && echo all passed || echo it failed"
WORK = ("-", TEST, "+", TEST)
"""What the worker of the middle step does, one after the other: it writes the file, and runs its test.

Without bytecode files: both versions of the file have one size, and may be of the same second."""
PARTS = ("List the files.", "Write calc.py, run its test, and mend it.", "Say how it went.")


def _does(agent: str, what: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Return the tool and the arguments for a command, or for the file with a sign in it."""
    text, is_file = FILE.format(what), len(what) == 1
    if agent == "Claude Code" and is_file:
        return "Write", {"file_path": f"{folder}/calc.py", "content": text}
    if agent == "Claude Code":
        return "Bash", {"command": what, "description": "Work"}
    return "exec_command", {"cmd": f"cat > calc.py <<'END'\n{text}END" if is_file else what}


@pytest.mark.long
@pytest.mark.parametrize("agent", ["Codex", "Claude Code"])
def test_a_step_in_the_middle_mends_a_file(
    agent: str, npm_programs: Path, tmp_path: Path, serve: Serve, upstream: ChatServer
) -> None:
    repository, asked = tmp_path / "repository", list[tuple[str, int]]()
    rows = [("one", PARTS[0], []), ("two", PARTS[1], []), ("one", PARTS[2], [0, 1])]
    keys = ("worker", "subtask", "access")
    plan = "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)

    def reply(call: Call) -> Reply:
        if is_planning(call):
            asked.append(("plan", 0))
            return says(call, plan)
        messages = call.body["messages"]
        texts = json.dumps([each["content"] for each in messages if each["role"] == "user"])
        part = max(PARTS, key=texts.rfind)
        results = [str(each["content"]) for each in messages if each["role"] == "tool"]
        if part not in texts:
            return says(call, "A title.")
        asked.append((part, len(results)))
        todo = {PARTS[0]: ("ls -a",), PARTS[1]: WORK}.get(part, ())
        if len(results) < len(todo):
            name, arguments = _does(agent, todo[len(results)], repository)
            function = {"name": name, "arguments": json.dumps(arguments)}
            calls = [{"id": "call_1", "type": "function", "function": function}]  # as all others
            return says(call, "", tool_calls=calls, finish_reason="tool_calls")
        if part == PARTS[1]:
            assert "it failed" in results[1]
            assert "all passed" in results[3]
        return says(call, f"Done: {part}" if part != PARTS[2] else "The test of calc.py passes.")

    upstream.reply, root = reply, serve(models=MODELS).root
    *files, commands = (block.replace("http://localhost:8000", root) for block in blocks(agent))
    configure_codex(tmp_path, *files)
    script = commands.replace("…", "none").replace("acceptEdits", "acceptEdits --allowedTools Bash")
    told = run(script, tmp_path, npm_programs)
    assert "The test of calc.py passes." in told
    assert (repository / "calc.py").read_text() == FILE.format("+")
    listing, mending = [(PARTS[0], n) for n in range(2)], [(PARTS[1], n) for n in range(5)]
    needed = [("plan", 0), *listing, *mending, (PARTS[2], 0)]
    assert sorted(asked) == sorted(needed)


def configure_codex(home: Path, *files: str) -> None:
    """Write the file of Codex, if there is one."""
    for text in files:
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(text)


@pytest.mark.long
def test_codex_does_not_repeat_a_failed_run(
    npm_programs: Path, tmp_path: Path, serve: Serve, upstream: ChatServer
) -> None:
    upstream.reply = lambda _: whole({"error": {"message": "no such model"}}, status=404)
    root = serve(models=MODELS).root
    blocks_of_one = (block.replace('"podium"', '"one"', 1) for block in blocks("Codex"))
    file, commands = (block.replace("http://localhost:8000", root) for block in blocks_of_one)
    configure_codex(tmp_path, file)
    told = run(f"{commands} || true".replace("\n ||", " ||"), tmp_path, npm_programs)
    assert len(upstream.calls) == 1, told
    assert "no such model" in told
