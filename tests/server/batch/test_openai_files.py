"""Files of OpenAI's Batch API."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from server.batch.conftest import Batch, echo, read, write
from server.batch.test_batch import fails_on
from server.scene import PLAN
from servers.chat_server import Call, ChatServer, Reply, says


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
    assert len(rows) == 6
    assert rows["c"]["response"]["status_code"] == 200
    assert rows["c"]["error"] is None
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
    write(
        folder / "in.jsonl", [chat(f"q{number}", f"question {number}", model="team") for number in range(3)]
    )
    upstream.reply = planning("I cannot plan.")
    assert "3 partial" in batch(*words, code=1).stderr
    assert "3 partial" in batch(*words, "--retry-failed", code=1).stderr
    upstream.reply = planning(PLAN)
    calls = len(upstream.calls)
    batch(*words, code=1)
    assert len(upstream.calls) == calls
    assert "3 lines: 3 ok" in batch(*words, "--retry-failed").stderr
    assert [call.body["model"] for call in upstream.calls[calls:]].count("planner") == 3
    calls = len(upstream.calls)
    batch(*words, "--retry-failed")
    assert len(upstream.calls) == calls
