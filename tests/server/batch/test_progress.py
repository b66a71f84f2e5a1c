"""What a batch shows while it runs."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from server.batch.conftest import command, write
from servers.chat_server import ChatServer, says


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
