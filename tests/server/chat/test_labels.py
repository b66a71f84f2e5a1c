"""A client sends a conversation as text, and the labels of its answers stay with it."""

from collections.abc import Callable
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


def items(said: str) -> tuple[str, dict[str, Any]]:
    content = [{"type": "output_text", "text": said, "annotations": []}]
    answer = {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": content}
    return "responses", {"input": [POST, answer, {"role": "user", "content": NEXT}]}


def post(
    served: Served, route: str, body: dict[str, Any], key: str = "", model: str = "first"
) -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx2.post(f"{served.url}/{route}", json={"model": model, **body}, headers=headers, timeout=20)


@pytest.mark.long
@pytest.mark.parametrize(
    ("second", "model", "said"),
    [
        (chat, "first", "It is 330 m high."),
        (items, "second", "It is 330 m high."),
        (items, "second", "It is 331 m high."),
    ],
)
def test_in_the_next_turn(
    upstream: ChatServer,
    tmp_path: Path,
    second: Callable[[str], tuple[str, dict[str, Any]]],
    model: str,
    said: str,
) -> None:
    """Also of another model, and after a restart of the server; another text has no labels."""
    upstream.reply = team
    text = CONFIG.format(url=upstream.url, models=POLICY, server="")
    with serving(text, tmp_path) as served:
        first = post(served, "chat/completions", {"messages": [POST]})
        assert first.json()["choices"][0]["message"]["content"] == "It is 330 m high."
        answers = [post(served, *second(said), model=model)]
    with serving(text, tmp_path) as served:
        answers.append(post(served, *second(said), model=model))
    assert [answer.is_success for answer in answers] == [said != "It is 330 m high."] * 2
    assert any(call.body["model"] == "two" for call in upstream.calls) == (said != "It is 330 m high.")


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
