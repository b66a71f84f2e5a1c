"""A batch whose input has changed: what is counted, checked and refused."""

from pathlib import Path

from server.batch.conftest import Batch, read, write
from server.batch.test_batch import fails_on
from servers.chat_server import ChatServer

QUESTIONS = [{"id": f"q{number}", "query": f"question {number}"} for number in range(6)]
WORDS = ("in.jsonl", "--model", "alone")


def test_check_tells_what_the_command_does(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """It refuses what the command refuses, and forecasts only the lines that are left."""
    limits = ("--max-cost", "0.5")
    upstream.reply = fails_on("question 5")
    write(folder / "in.jsonl", QUESTIONS)
    assert (
        "maximum cost: $3.00, the sum of the cost limits of 6 runs"
        in batch(*WORDS, *limits, "--check").stdout
    )
    batch(*WORDS, *limits, code=1)
    results = (folder / "in.results.jsonl").read_bytes()
    told = batch(*WORDS, *limits, "--check").stdout
    assert "6 lines already finished" in told
    assert "limits of 0 runs" in told
    assert "expected cost: $0" in told
    told = batch(*WORDS, *limits, "--retry-failed", "--check").stdout
    assert "maximum cost: $0.5000, the sum of the cost limits of 1 run" in told
    write(
        folder / "in.jsonl", [*QUESTIONS[:5], {"id": "q5", "query": "changed"}, {"id": "new", "query": "x"}]
    )
    told = batch(*WORDS, *limits, "--check", code=1).stdout
    assert "✗ line 6: the results have the id 'q5' with another question" in told
    assert "5 lines already finished" in told
    assert "limits of 1 run" in told
    assert (folder / "in.results.jsonl").read_bytes() == results
    (folder / "in.results.jsonl").unlink()  # the runs are in the journal
    write(folder / "in.jsonl", QUESTIONS)
    assert "6 lines already finished" in batch(*WORDS, *limits, "--check").stdout
    (folder / "in.results.jsonl").write_bytes(results)
    assert "another batch" in batch(*WORDS, "--name", "other", "--check", code=2).stderr
    assert len(upstream.calls) == 6


def test_a_refused_line_stays_as_it_was(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """A second batch from the file of failures refuses it too, and asks no other question."""
    half = r'{"id": "half", "query": "Is \ud83d red?"}'
    twice = '{"id": "twice", "query": "one", "query": "two"}'
    empty = '{"id": "", "query": "one"}'
    (folder / "in.jsonl").write_text(f"{half}\n{twice}\n{empty}")
    told = batch(*WORDS, "--failures", "bad.jsonl", code=1).stderr
    assert r"line 1 (half): invalid: the line has \ud83d, which is only half of a character" in told
    assert "line 2: invalid: the line has the field 'query' twice" in told
    assert "line 3" in told
    first, second, third = sorted(read(folder / "bad.jsonl"), key=lambda row: row["failure"]["line"])
    assert (first["query"], second["text"], third["id"]) == ("Is \ud83d red?", f"{twice}\n", "")
    batch("bad.jsonl", "--model", "alone", code=1)
    assert upstream.calls == []


def test_files_that_cannot_be_used(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """They are refused before anything is paid, and leave no file behind."""
    write(folder / "in.jsonl", QUESTIONS[:2])
    for named in (".", "..", "/", str(folder)):
        assert "it is a folder" in batch(named, code=2).stderr
    for wrong in ("out.csv", "out", "out.json"):
        assert "choose a name with .jsonl" in batch(*WORDS, "--out", wrong, code=2).stderr
        assert "choose a name with .jsonl" in batch(*WORDS, "--failures", wrong, code=2).stderr
    assert upstream.calls == []
    batch(*WORDS)
    batch(*WORDS, "--name", "other", code=2)
    assert not list(folder.glob("*.new"))


def test_equal_lines_without_an_id_are_told(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """Each is a run of its own, so the user is told before anything is paid."""
    line = '{"query": "twice"}\n'
    (folder / "in.jsonl").write_text(line * 3 + '{"id": "a", "query": "b"}\n' * 2)
    told = "2 lines without an id, equal to earlier lines: each is a run of its own, and is paid for"
    assert f"! {told}" in batch(*WORDS, "--check", code=1).stdout
    assert upstream.calls == []
    assert f"podium: warning: {told}" in batch(*WORDS, code=1).stderr
    (folder / "in.txt").write_text("same\nsame\nother")
    assert "! 1 line without an id" in batch("in.txt", "--model", "alone", "--check").stdout
