"""`podium batch` answers the lines of a file, also of OpenAI's; a repetition calls nothing again."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from server.batch.conftest import Batch, asked_of, echo, questions, read, write
from server.scene import PLAN, called
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.shop import shop
from typer.testing import Result

Podium = Callable[..., Result]
QUESTIONS = questions(20)
WORDS = ("in.jsonl", "--model", "alone")
ONE = (211 + 2 * 7) / 1e6
"""The cost of a run, in USD."""


def fails_on(text: str) -> Any:
    def reply(call: Call) -> Reply:
        refusal = whole({"error": {"message": "no"}}, status=400)
        return refusal if text in asked_of(call) else echo(call)

    return reply


def test_each_line_has_one_result(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    write(folder / "in.jsonl", QUESTIONS)
    done = batch(*WORDS)
    rows = {row["id"]: row for row in read(folder / "in.results.jsonl")}
    assert rows.keys() == {row["id"] for row in QUESTIONS}
    assert rows["q7"]["answer"] == "answer to question 7"
    assert (rows["q7"]["line"], rows["q7"]["status"], rows["q7"]["usage"]["input_tokens"]) == (8, "ok", 211)
    assert rows["q7"]["cost"] == pytest.approx(ONE)
    assert "20 lines: 20 ok" in done.stderr
    assert batch(*WORDS, "--quiet").stderr == ""
    assert len(upstream.calls) == 20
    assert len(read(folder / "in.results.jsonl")) == 20


def test_the_forms_of_lines(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """A line may have a conversation, a model, texts, a plan and labels; equal lines are several runs."""
    upstream.reply = lambda call: says(call, PLAN) if call.body["model"] == "planner" else echo(call)
    texts = {"context": {"note": "a note"}}
    step = {"worker": "one", "subtask": "Read {{note}}.", "access": []}
    lines = [
        {"question": "twice", "model": "alone"},
        {"question": "twice", "model": "alone"},
        {"id": 3, "messages": [{"role": "user", "content": "by messages"}], "model": "alone"},
        {"id": "plan", "query": "planned", "model": "team", "plan": {"steps": [step]}, **texts},
        {"id": "team", "query": "hello", "labels": ["eu"], "model": "team"},
    ]
    write(folder / "in.jsonl", lines)
    batch("in.jsonl")
    rows = read(folder / "in.results.jsonl")
    assert {row["status"] for row in rows} == {"ok"}
    assert len({row["id"] for row in rows}) == len({row["run_id"] for row in rows}) == 5
    assert {"3", "plan", "team"} <= {row["id"] for row in rows}
    assert any("a note" in str(call.body) for call in upstream.calls)


def test_bad_lines_stop_nothing(folder: Path, batch: Batch) -> None:
    good = ['{"id": "a", "query": "one"}', '{"id": "b", "query": "two"}']
    plan = '"plan": {"steps": [{"worker": "bob", "subtask": "x"}]}'
    bad = {
        "{": "is not JSON",
        "[1]": "not a JSON object",
        '{"id": "c"}': "write one question",
        '{"id": "d", "query": " "}': "empty",
        '{"id": "a", "query": "again"}': "an earlier line has the id 'a'",
        '{"id": "e", "query": "x", "model": "none"}': "there is no model 'none'",
        '{"id": "f", "query": "x", "temperature": 1}': "temperature",
        '{"id": "h", "query": "x", "context": {"note": "x"}}': "answers as itself",
        f'{{"id": "g", "query": "x", "model": "team", {plan}}}': "bob",
    }
    text = "\n".join([good[0], *bad, good[1]]).encode() + b'\n{"query": "\xff"}\n'
    (folder / "in.jsonl").write_bytes(text)
    words = (*WORDS, "--failures", "bad.jsonl")
    told = batch(*words, code=1).stderr
    for number, what in [*enumerate(bad.values(), 2), (12, "not UTF-8")]:
        assert any(f"line {number}" in line and what in line for line in told.splitlines()), (number, told)
    rows = read(folder / "in.results.jsonl")
    assert sorted(row["id"] for row in rows if row["status"] == "ok") == ["a", "b"]
    assert len(rows) == 12
    assert len(read(folder / "bad.jsonl")) == 10
    batch(*words, code=1)
    assert len(read(folder / "bad.jsonl")) == 10
    (folder / "in.jsonl").write_text("\n".join(good))
    batch(*words)
    assert (len(read(folder / "in.results.jsonl")), read(folder / "bad.jsonl")) == (2, [])


@pytest.mark.long
def test_failed_lines(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """They are run again only with `--retry-failed`, or as the input of another batch."""
    upstream.reply = fails_on("question 1")
    write(folder / "in.jsonl", QUESTIONS)
    words = (*WORDS, "--failures", "bad.jsonl")
    told = batch(*words, code=1).stderr
    assert "11 lines failed: repeat the command with --retry-failed" in told
    calls = len(upstream.calls)
    bad = read(folder / "bad.jsonl")
    assert [row["failure"]["code"] for row in bad] == ["worker_refused"] * 11
    batch(*words, code=1)
    (folder / "in.results.jsonl").unlink()
    batch(*words, code=1)
    assert (len(upstream.calls), len(read(folder / "bad.jsonl"))) == (calls, 11)
    upstream.reply = echo
    batch("bad.jsonl", "--model", "alone")
    assert len(read(folder / "bad.results.jsonl")) == 11
    batch(*words, "--retry-failed")
    rows = read(folder / "in.results.jsonl")
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in QUESTIONS)
    assert {row["status"] for row in rows} == {"ok"}
    assert read(folder / "bad.jsonl") == []
    assert len(upstream.calls) == calls + 22


def test_the_results_of_another_batch(folder: Path, batch: Batch) -> None:
    write(folder / "in.jsonl", QUESTIONS[:2])
    batch(*WORDS)
    before = (folder / "in.results.jsonl").read_text()
    assert "another batch" in batch("in.jsonl", "--name", "other", code=2).stderr
    assert "different files" in batch("in.jsonl", "--out", "in.jsonl", code=2).stderr
    write(folder / "in.jsonl", [{"id": "q0", "query": "changed"}, QUESTIONS[1]])
    assert "another question" in batch(*WORDS, code=1).stderr
    assert (folder / "in.results.jsonl").read_text().startswith(before)


def test_check_calls_no_model(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    write(folder / "in.jsonl", QUESTIONS)
    told = batch(*WORDS, "--check", "--max-cost", "0.5").stdout
    assert "20 lines for the model alone" in told
    assert "maximum cost: $10.00" in told
    for model in ("alone", "team"):
        told = batch("in.jsonl", "--model", model, "--check", "--max-cost", "0.00001", code=1).stdout
        assert f"✗ no line for the model {model} can be answered: each call of a worker may cost $" in told
    assert upstream.calls == []
    batch(*WORDS)
    again = (*WORDS, "--check", "--name", "again", "--out", "again.jsonl")
    assert "expected cost: $0.0045 to $0.0045" in batch(*again).stdout
    (folder / "in.jsonl").write_text("{")
    assert "✗ line 1" in batch("in.jsonl", "--check", code=1).stdout


def test_check_finds_questions_that_are_too_long(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    write(folder / "in.jsonl", [{"id": "short", "query": "What?"}, {"id": "long", "query": "a " * 25_000}])
    told = batch("in.jsonl", "--model", "team", "--check", "--max-cost", "0.4").stdout
    assert "a call of one" not in told
    long = "line 2: the question has 50,000 characters: a call of"
    assert re.search(rf"! {long} two may cost \$0\.[\d]+, and the limit", told)
    for model in ("team", "alone"):
        told = batch("in.jsonl", "--model", model, "--check", "--max-cost", "0.03", code=1).stdout
        assert f"✗ {long} one may cost $0.0" in told
        assert ("planning may cost $0.0" in told) == (model == "team")
        assert "line 1" not in told
    openai = {"model": "alone", "messages": [{"role": "user", "content": "a " * 25_000}]}
    write(folder / "in.jsonl", [{"custom_id": "a", "url": "/v1/chat/completions", "body": openai}])
    assert "✗ line 1" in batch("in.jsonl", "--check", "--max-cost", "0.03", code=1).stdout
    assert upstream.calls == []


@pytest.mark.long
def test_an_unknown_end(folder: Path, batch: Batch, podium: Podium, upstream: ChatServer) -> None:
    """`--retry-failed` does not repeat it; after the decision of a person, it completes the line."""
    upstream.reply = lambda call: says(call, "the answer")
    refund = {"worker": "shop.refund", "subtask": '{"order": 1017}', "access": []}
    plan = {"steps": [refund, {"worker": "one", "subtask": "Write.", "access": [0]}]}
    write(folder / "in.jsonl", [{"id": "q", "question": "Refund it.", "model": "team", "plan": plan}])
    words = ("in.jsonl", "--max-cost", "1", "--budget", "1")
    with shop() as orders:
        config = folder / "podium.toml"
        price = "price = { input = 0.0, output = 0.0 }\n"
        config.write_text(f"{config.read_text()}\n{orders.table}{price}\n[retry]\nattempts = 1\n")
        orders.late = 1
        batch(*words, code=1)
        batch(*words, "--retry-failed", code=1)
        (row,) = read(folder / "in.results.jsonl")
        assert (row["status"], orders.refunds) == ("failed", [1017])
        assert f"podium decide {row['run_id']} --action 0 done|not-done" in row["problem"]["message"]
        podium("decide", row["run_id"], "done", "--action", "0")
        batch(*words, "--retry-failed")
        (row,) = read(folder / "in.results.jsonl")
        assert (row["status"], row["answer"], orders.refunds) == ("ok", "the answer", [1017])


def test_a_refused_line_stays_as_it_was(folder: Path, batch: Batch, upstream: ChatServer) -> None:
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
    line = '{"query": "twice"}\n'
    (folder / "in.jsonl").write_text(line * 3 + '{"id": "a", "query": "b"}\n' * 2)
    told = "2 lines without an id, equal to earlier lines: each is a run of its own, and is paid for"
    assert f"! {told}" in batch(*WORDS, "--check", code=1).stdout
    assert upstream.calls == []
    assert f"podium: warning: {told}" in batch(*WORDS, code=1).stderr
    (folder / "in.txt").write_text("same\n\n  \nsame\nother")  # a question in each line
    assert "! 1 line without an id" in batch("in.txt", "--model", "alone", "--check").stdout
    batch("in.txt", "--model", "alone", "--out", "out.jsonl")
    answers = sorted(row["answer"] for row in read(folder / "out.jsonl"))
    assert answers == ["answer to other", "answer to same", "answer to same"]


def test_runs_that_do_not_fit_are_not_started(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    write(folder / "in.jsonl", QUESTIONS)
    words = (*WORDS, "--max-cost", "0.02", "--failures", "bad.jsonl", "--budget")
    budget = 0.02 + 9.5 * ONE
    told = batch(*words, str(budget), code=3).stderr
    rows = read(folder / "in.results.jsonl")
    started = [row for row in rows if row["status"] == "ok"]
    assert len(started) == len(upstream.calls) == 10
    assert {row["status"] for row in rows if row not in started} == {"not_started"}
    assert "10 lines not started: raise --budget" in told
    assert [row["failure"]["code"] for row in read(folder / "bad.jsonl")] == ["budget_spent"] * 10
    batch(*words, str(budget), code=3)
    assert len(upstream.calls) == 10
    batch(*words, str(0.02 + 30 * ONE))
    assert len(upstream.calls) == 20
    rows = read(folder / "in.results.jsonl")
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in QUESTIONS)
    assert sum(row["cost"] for row in rows) == pytest.approx(20 * ONE)
    assert read(folder / "bad.jsonl") == []


def test_parallel_runs_reserve_their_limits(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """Which a budget needs, with prices."""
    write(folder / "in.jsonl", QUESTIONS)
    batch(*WORDS, "--max-cost", "0.02", "--budget", "0.025", "--concurrency", "20")
    assert len(upstream.calls) == 20
    assert "add --max-cost" in batch("in.jsonl", "--budget", "1", code=2).stderr
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace("price = { input = 10.0, output = 20.0 }", ""))
    assert "price of two is unknown" in batch("in.jsonl", "--budget", "1", "--max-cost", "1", code=2).stderr


@pytest.mark.long
def test_elsewhere_there_are_lines(
    folder: Path, batch: Batch, upstream: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tells the counts, the money, the pace and the time left; `--quiet` shows none."""
    monkeypatch.setattr("podium_server.batch.runner.LINE_SECONDS", 0.1)
    upstream.reply = lambda call: says(call, "answer", delay=0.2)
    write(folder / "in.jsonl", QUESTIONS[:12])
    words = (*WORDS, "--max-cost", "0.1", "--budget", "1", "--concurrency", "4")
    lines = [line for line in batch(*words).stderr.splitlines() if " of 12: " in line]
    assert lines
    form = r"podium: (\d+) of 12: (\d+) ok, 0 not ok, [0-4] running; \$[\d.]+ of \$1\.00; [\d.]+/s, .+"
    found = [re.fullmatch(form, line) for line in lines]
    done = [int(each[1]) for each in found if each is not None]
    assert len(done) == len(lines)
    assert done == sorted(done)
    assert batch(*words, "--out", "out.jsonl", "--quiet").stderr == ""


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_or_a_journal(folder: Path, batch: Batch) -> None:
    write(folder / "in.jsonl", QUESTIONS)
    assert "podium-server[ray]" in batch("in.jsonl", "--ray", "local", code=2).stderr
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace('path = "runs.db"', "off = true"))
    assert "needs a journal" in batch("in.jsonl", code=2).stderr


def chat(name: str, text: str, **more: Any) -> dict[str, Any]:
    body = {"model": "alone", "messages": [{"role": "user", "content": text}], **more}
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}


def response(name: str, text: str, **more: Any) -> dict[str, Any]:
    body = {"model": "alone", "input": text, **more}
    return {"custom_id": name, "method": "POST", "url": "/v1/responses", "body": body}


def test_openai_files(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """The results have the form of OpenAI's output files, also for requests that fail."""
    upstream.reply = fails_on("bad question")
    lines = [
        chat("c", "by chat", temperature=0.5),
        response("r", "by response"),
        chat("failed", "bad question"),
        chat("streamed", "x", stream=True),
        response("stored", "x", previous_response_id="resp_1"),
        {**chat("elsewhere", "x"), "url": "/v1/embeddings"},
    ]
    write(folder / "in.jsonl", lines)
    words = ("in.jsonl", "--out", "out.jsonl", "--failures", "bad.jsonl")
    batch(*words, code=1)
    rows = {row["custom_id"]: row for row in read(folder / "out.jsonl")}
    assert (len(rows), rows["c"]["response"]["status_code"], rows["c"]["error"]) == (6, 200, None)
    completion = ChatCompletion.model_validate(rows["c"]["response"]["body"])
    assert completion.choices[0].message.content == "answer to by chat"
    answer = rows["r"]["response"]["body"]["output"][-1]
    assert answer["content"][0]["text"] == "answer to by response"
    refused = rows["failed"]["response"]
    assert (refused["status_code"], refused["body"]["error"]["code"]) == (400, "worker_refused")
    assert all(row["id"].startswith("batch_req_") for row in rows.values())
    for name, told in (("streamed", "stream"), ("stored", "previous_response_id"), ("elsewhere", "url")):
        assert rows[name]["response"] is None
        assert told in rows[name]["error"]["message"]
    assert any(call.body.get("temperature") == 0.5 for call in upstream.calls)
    calls = len(upstream.calls)
    (folder / "out.jsonl").unlink()
    batch(*words, code=1)
    again = {row["custom_id"]: row for row in read(folder / "out.jsonl")}
    assert len(upstream.calls) == calls
    assert again["c"]["response"]["body"]["choices"] == rows["c"]["response"]["body"]["choices"]
    assert again["failed"]["response"]["status_code"] == 400
    upstream.reply = fails_on("nothing")
    batch("bad.jsonl", code=1)
    fed = {row["custom_id"]: row for row in read(folder / "bad.results.jsonl")}
    assert fed["failed"]["response"]["status_code"] == 200


def planning(text: str) -> Callable[[Call], Reply]:
    """Return a team whose planner writes a text."""
    return lambda call: says(call, text) if call.body["model"] == "planner" else echo(call)


@pytest.mark.long
def test_retry_after_an_outage_of_the_planner(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """Lines whose plan the fallback planner wrote are asked for again, and nothing else."""
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace('model = "planner"', 'model = "planner"\nfallback = "rule"'))
    words = ("in.jsonl", "--model", "team")
    write(folder / "in.jsonl", [chat(f"q{each}", f"question {each}", model="team") for each in range(3)])
    upstream.reply = planning("I cannot plan.")
    assert "3 partial" in batch(*words, code=1).stderr
    assert "3 partial" in batch(*words, "--retry-failed", code=1).stderr
    upstream.reply = planning(PLAN)
    calls = len(upstream.calls)
    batch(*words, code=1)
    assert len(upstream.calls) == calls
    assert "3 lines: 3 ok" in batch(*words, "--retry-failed").stderr
    asked = called(upstream)
    assert asked[calls:].count("planner") == 3
    batch(*words, "--retry-failed")
    assert called(upstream) == asked
