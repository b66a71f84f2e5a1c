"""A client sends a conversation as text, and the labels of its answers stay with it."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.scene import CONFIG
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served, serving

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyRules, KeyStore

POLICY = """[policy]
rules = [{label = "one", never = ["two"]}]
[models.first]
[models.second]
workers = ["two"]
"""
FIRST, NEXT = "How high is it?", "Mail it."
POST = {"role": "user", "content": FIRST}


def team(call: Call) -> Reply:
    if call.body["model"] != "planner":
        return says(call, "It is 330 m high." if call.body["model"] == "one" else "sent")
    worker = "two" if NEXT in str(call.body["messages"]) else "one"
    return says(call, f'{{"worker": "{worker}", "subtask": "Do it.", "access": []}}\n')


def chat(said: str) -> tuple[str, dict[str, Any]]:
    messages = [POST, {"role": "assistant", "content": said}, {"role": "user", "content": NEXT}]
    return "chat/completions", {"messages": messages}


def post(
    served: Served, route: str, body: dict[str, Any], key: str = "", model: str = "first"
) -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.post(f"{served.url}/{route}", json={"model": model, **body}, headers=headers, timeout=20)


def test_a_stored_response_is_continued(upstream: ChatServer, tmp_path: Path) -> None:
    upstream.reply = team
    with serving(CONFIG.format(url=upstream.url, models=POLICY, server=""), tmp_path) as served:
        first = post(served, "responses", {"input": FIRST}).json()
        after = post(served, "responses", {"input": NEXT, "previous_response_id": first["id"]})
    assert "two" in after.text
    assert all(call.body["model"] != "two" for call in upstream.calls)


@pytest.mark.parametrize("retention", [None, 0])
def test_only_the_answers_of_the_key_count(
    upstream: ChatServer, tmp_path: Path, retention: int | None
) -> None:
    upstream.reply = team
    journal = SqlJournal(tmp_path / "runs.db")
    store, rules = KeyStore(journal), KeyRules(retention_days=retention)
    alice, bob = (run_sync(lambda: store.create(name, rules))[1] for name in ("alice", "bob"))  # noqa: B023
    text = CONFIG.format(url=upstream.url, models=POLICY, server="")
    with serving(text, tmp_path, KeyAccess(store, journal=journal)) as served:
        post(served, "chat/completions", {"messages": [POST]}, alice)
        assert post(served, *chat("It is 330 m high."), bob).is_success
        assert not post(served, *chat("It is 330 m high."), alice).is_success
