"""What a batch shows while it runs."""

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from server.batch.conftest import Batch, command, write
from servers.chat_server import ChatServer, says


@pytest.mark.long
def test_a_terminal_has_a_bar(folder: Path, upstream: ChatServer) -> None:
    """With the finished and running lines, the money, the pace and the time left."""
    upstream.reply = lambda call: says(call, "answer", delay=0.1)
    write(folder / "in.jsonl", ({"query": f"question {number}"} for number in range(40)))
    terminal, inner = os.openpty()
    words = ("in.jsonl", "--model", "alone", "--max-cost", "0.1", "--budget", "1")
    with subprocess.Popen(**command(folder, *words), stdout=inner, stderr=inner) as running:
        os.close(inner)
        shown = b""
        with suppress(OSError):  # the end of the command closes the terminal
            while piece := os.read(terminal, 65536):
                shown += piece
        assert running.wait(20) == 0
    os.close(terminal)
    text = shown.decode()
    assert "0/40" in text
    assert "8 running" in text
    assert "of $1.00" in text
    assert "40 lines: 40 ok" in text


def test_elsewhere_there_are_lines(
    folder: Path, batch: Batch, upstream: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tells the counts, the money, the pace and the time left; `--quiet` shows none."""
    monkeypatch.setattr("podium_server.batch.runner.LINE_SECONDS", 0.1)
    upstream.reply = lambda call: says(call, "answer", delay=0.2)
    write(folder / "in.jsonl", ({"id": number, "query": f"question {number}"} for number in range(12)))
    words = ("in.jsonl", "--model", "alone", "--max-cost", "0.1", "--budget", "1", "--concurrency", "4")
    lines = [line for line in batch(*words).stderr.splitlines() if " of 12: " in line]
    assert lines
    form = r"podium: (\d+) of 12: (\d+) ok, 0 not ok, [0-4] running; \$[\d.]+ of \$1\.00; [\d.]+/s, .+"
    found = [re.fullmatch(form, line) for line in lines]
    done = [int(each[1]) for each in found if each is not None]
    assert len(done) == len(lines)
    assert done == sorted(done)
    assert batch(*words, "--out", "out.jsonl", "--quiet").stderr == ""


def test_lines_that_wait_for_the_budget_do_not_run(
    folder: Path, batch: Batch, upstream: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress counts the runs that the budget allows at the same time."""
    monkeypatch.setattr("podium_server.batch.runner.LINE_SECONDS", 0.05)
    upstream.reply = lambda call: says(call, "answer", delay=0.2)
    write(folder / "in.jsonl", ({"id": number, "query": f"question {number}"} for number in range(8)))
    words = ("in.jsonl", "--model", "alone", "--max-cost", "0.1", "--budget", "0.25")
    told = batch(*words, "--concurrency", "8").stderr
    assert set(map(int, re.findall(r"(\d+) running", told))) <= {0, 1, 2}
    assert "2 running" in told
