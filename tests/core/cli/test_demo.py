"""`podium demo`: a run that is killed, resumed and approved, and a question, on this machine."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole
from typer.testing import Result

Podium = Callable[..., Result]
Spawn = Callable[..., subprocess.Popen[bytes]]


def shown(*words: str, expected: int = 0) -> str:
    """Run the demo without a terminal, and return all that it writes."""
    command = [sys.executable, "-m", "podium", "demo", *words]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == expected, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.long
@pytest.mark.timeout(300)
def test_whole_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The killed run pays no recorded answer again, the hidden line stays hidden, the refunds happen once."""
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "cats.txt").write_text("The cat of the house is called Minka.\n")
    said = shown("What is 6 * 7, and what is the cat called?", "--folder", str(tmp_path))
    assert re.search(r"kill -9 \d+: the process is gone, after \d+ answers", said)
    assert re.search(r"\d of these repeat calls", said)
    assert re.search(r"switched off: \d+ calls failed.\nstand-in sorted the other [5-8]: ", said)
    counts = re.findall(r"(assessor|writer|sceptic) +(\d+) of (\d+)\n", said)
    assert counts == [("assessor", "20", "20"), ("writer", "0", "20"), ("sceptic", "0", "20")]
    (folder,) = tmp_path.glob("podium-demo-*")
    assert len((folder / "refunds.txt").read_text().splitlines()) == 10
    bill = said[said.index("  The bill ──") :]
    run, manager, cached = (float(cost) for cost in re.findall(r"\$(0\.\d+)\n", bill)[:3])
    assert run < cached < manager
    assert "42" in said
    assert "Minka" in said
    podium = f"{shlex.quote(sys.executable)} -m podium"
    assert f"  {podium} init\n" in said
    assert f"  {podium} run 'What is 6 * 7" in said


@pytest.mark.long
@pytest.mark.timeout(300)
def test_person_at_the_terminal(spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person skips parts, approves the action with a key, and asks a question; the run is drawn live."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm-256color")
    leader, follower = pty.openpty()
    process = spawn("demo", terminal=follower)
    os.close(follower)
    answers = {"1/8": "s", "2/8": "", "3/8": "", "4/8": "s", "5/8": "s", "6/8": "", "7/8": "s", "8/8": "s"}
    keys = [*answers.values()]
    said = b""
    asked = 0
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        said += piece
        while said.count(b"quit (then Enter): ") > asked:
            os.write(leader, f"{keys[asked]}\n".encode())
            asked += 1
        if b"Carry out this action?" in piece:
            os.write(leader, b"y\n")
        if b"A question of yours" in piece:
            os.write(leader, b"What is 6 * 7?\n")
    os.close(leader)
    assert process.wait(30) == 0
    told = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode())
    assert asked == len(keys)
    assert "In how many prompts" not in told, "it was skipped"
    assert re.search(r"0 triage .*of 20", told), "the live view"
    assert "6 * 7 = 42" in told or "42" in told.split("Question:")[-1]
    (folder,) = tmp_path.glob("podium-demo-*")
    assert len((folder / "refunds.txt").read_text().splitlines()) == 10


def answers(call: Call) -> Reply:
    """Answer as a model would, in the form that is asked for."""
    if call.path.endswith("/models"):
        return whole({"data": [{"id": "small"}]})
    prompt = call.body["messages"][-1]["content"]
    order = (re.search(r"A\d{4}", prompt) or [""])[0]
    if "Sort this message" in prompt[-400:]:
        return says(call, json.dumps({"kind": "complaint", "order": order}))
    if "Decide how much" in prompt[-400:]:
        return says(call, json.dumps({"order": order, "refund": 1.5}))
    if "promise more" in prompt[-200:]:
        return says(call, '{"too_much": false}')
    return says(call, f"Dear customer of {order}.")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_real_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--model`, the server of the person writes the texts of three messages."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with ChatServer(answers).in_thread() as server:
        said = shown("--model", "--base-url", server.url)
        assert {call.body["model"] for call in server.calls if call.body} == {"small"}
    assert f"The texts are written by small at {server.url}." in said
    assert "assessor    3 of 3" in said
    (folder,) = tmp_path.glob("podium-demo-*")
    assert (folder / "refunds.txt").read_text() == "A1001 1.50 EUR\nA1002 1.50 EUR\nA1003 1.50 EUR\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--folder", "none"], "--folder"),
        (["--base-url", "http://127.0.0.1:1/v1"], "--model"),
        (["--model", "--base-url", "http://127.0.0.1:1/v1"], "does not list its models"),
    ],
)
def test_wrong_options(podium: Podium, words: list[str], told: str) -> None:
    """A folder or a server that is not there is told before anything starts."""
    result = podium("demo", *words)
    assert result.exit_code == 2
    assert told in result.stderr
