"""Files of OpenAI's Batch API."""

from pathlib import Path
from typing import Any

from openai.types.chat import ChatCompletion
from server.batch.conftest import Batch, read, write
from server.batch.test_batch import fails_on
from servers.chat_server import ChatServer


def chat(name: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a line for chat completions."""
    body = {"model": "alone", "messages": [{"role": "user", "content": text}], **more}
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}


def response(name: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a line for the Responses API."""
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
