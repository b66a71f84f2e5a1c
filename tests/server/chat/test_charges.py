"""What a client is told about calls that are charged without a reported usage, and about failed runs."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
from server.scene import ASKED, Serve, team
from servers.chat_server import CUT, Call, ChatServer, Reply, whole
from servers.podium_server import Served

RETRY = "[retry]\nfirst_wait = 0.01\n"
CUT_OFF = Reply((b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"choices"', CUT))
GARBAGE = whole("The proxy has no answer.", content_type="text/plain")
AT_RESERVATION = "charged at the reservation: no valid usage reported"
BY_TEXT = "charged by the received text: no valid usage reported"
PATHS: dict[str, dict[str, Any]] = {
    "/chat/completions": {"messages": ASKED},
    "/messages": {"messages": ASKED, "max_tokens": 100},
    "/responses": {"input": ASKED[0]["content"]},
}


def broken(*replies: Reply) -> Callable[[Call], Reply]:
    """Return a script whose last worker first gives these replies, and then answers."""
    left: Iterator[Reply] = iter(replies)
    return lambda call: next(left, team(call)) if call.body["model"] == "two" else team(call)


def post(served: Served, path: str, **more: Any) -> httpx2.Response:
    body = {"model": "podium", **PATHS[path], **more}
    return httpx2.post(served.url + path, json=body, timeout=20)


def test_an_answer_after_a_broken_call_says_what_was_charged(serve: Serve, upstream: ChatServer) -> None:
    served = serve(models=RETRY)
    for path in PATHS:
        upstream.reply = broken(CUT_OFF, GARBAGE)
        answer = post(served, path)
        body = answer.json()
        note = body["podium"]["usage_note"]
        assert re.sub(r", at most \$[\d.]+", "", note) == f"1 call {AT_RESERVATION}; 1 call {BY_TEXT}"
        assert (body["podium"]["status"], body["usage"]["estimated"]) == ("ok", True)
        assert answer.headers["x-podium-usage"] == "estimated"
        if path == "/chat/completions":
            told = body["choices"][0]["message"]["reasoning_content"]
            assert f"a call of two failed (worker_broken), {AT_RESERVATION}." in told
            assert f"a call of two failed (worker_broken), {BY_TEXT}." in told
        measured = post(served, path)
        assert measured.json()["usage"]["estimated"] is False
        assert measured.json()["podium"]["usage_note"] is None
        assert measured.headers["x-podium-usage"] == "measured"
    run_id = answer.headers["x-podium-run-id"]
    run = httpx2.get(f"{served.url}/runs/{run_id}").json()
    assert run["usage_note"] == note
    step = run["rounds"][0]["steps"][1]
    assert step["charged"] == "reservation"
    assert [call["charged"] for call in step["calls"]] == ["reservation", "received", "usage"]
    assert step["calls"][0]["cost"] > step["calls"][1]["cost"] > 0
    events = httpx2.get(f"{served.url}/runs/{run_id}/events").text
    failed = [json.loads(line[6:]) for line in events.splitlines() if '"type":"attempt_failed"' in line]
    assert [each["call"]["charged"] for each in failed] == ["reservation", "received"]
