"""`podium demo`: a run that is killed, resumed and approved, and a question, on this machine."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.chat_server import Call, Reply, says, whole
from typer.testing import Result

Podium = Callable[..., Result]


def shown(*words: str, expected: int = 0) -> str:
    command = [sys.executable, "-m", "podium", "demo", *words]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == expected, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.long
@pytest.mark.timeout(300)
def test_whole_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert all(text in said for text in ("42", "Minka"))
    podium = f"{shlex.quote(sys.executable)} -m podium"
    assert all(text in said for text in (f"  {podium} init\n", f"  {podium} run 'What is 6 * 7"))


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--folder", "none"], "--folder"),
        (["--base-url", "http://127.0.0.1:1/v1"], "--model"),
        (["--model", "--base-url", "http://127.0.0.1:1/v1"], "does not list its models"),
    ],
)
def test_wrong_options(podium: Podium, words: list[str], told: str) -> None:
    result = podium("demo", *words)
    assert result.exit_code == 2
    assert told in result.stderr
