"""Conversations: results of tools continue the run that called them; labels of answers stay with them."""

from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, called, team
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served

FUNCTION: Any = {"name": "add", "parameters": {"type": "object"}}
TOOLS = [{"type": "function", "function": FUNCTION}]
CALL = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
CALLS = [{"id": f"call_{number}", **CALL} for number in (1, 2)]


def calling(call: Call) -> Reply:
    """Reply as the team, whose last worker calls tools until it has a result."""
    if call.body["model"] != "two" or any(said["role"] == "tool" for said in call.body["messages"]):
        return team(call)
    return says(call, "", tool_calls=CALLS, finish_reason="tool_calls")


def post(served: Served, messages: list[Any], tools: Any = TOOLS, key: str = "none") -> Any:
    body = {"model": "podium", "tools": tools, "messages": messages}
    answer = httpx2.post(f"{served.url}/chat/completions", json=body, headers={"x-api-key": key}, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("rules", [{}, {"retention_days": 0}], ids=["recorded", "not recorded"])
def test_another_key(rules: Any, keyed: Served, upstream: ChatServer) -> None:
    """It continues no run of others, although it knows the calls; a key without texts leaves none."""
    upstream.reply = calling
    own, other = keyed.key(**rules), keyed.key(**rules)
    turns = ([*ASKED], [*ASKED, TOLD, *RESULTS])
    for messages in turns:
        post(keyed, messages, key=own)
    assert called(upstream)[3:] == ["two"]
    post(keyed, turns[1], key=other)
    assert called(upstream)[4:] == ["planner", "one", "two"]
    assert bool(keyed.http(own).get("/runs").json()["data"]) == (not rules)


CLOCK = [{"role": "system", "content": f"It is 10:00:0{second}."} for second in (0, 7)]
TOLD = {"role": "assistant", "content": None, "tool_calls": CALLS}
RESULTS = [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in CALLS]
MORE = {"role": "user", "content": "Thank you."}
OTHER = [{"type": "function", "function": {**FUNCTION, "name": "look"}}]


@pytest.mark.parametrize(
    ("more", "tools", "expected"), [([MORE], TOOLS, ["two"]), ([], OTHER, ["planner", "one", "two"])]
)
def test_a_conversation_that_has_changed(
    more: list[Any], tools: Any, expected: list[str], serve: Serve, upstream: ChatServer
) -> None:
    served, upstream.reply = serve(), calling
    post(served, [CLOCK[0], *ASKED])
    upstream.calls.clear()
    answer = post(served, [CLOCK[1], *ASKED, TOLD, *RESULTS, *more], tools)
    assert (answer["podium"]["status"], called(upstream)) == ("ok", expected)
    seen = upstream.calls[-1].body["messages"]
    assert [said for said in seen if said in CLOCK] == [CLOCK[1]]


def test_calls_whose_ids_are_not_unique(serve: Serve, upstream: ChatServer) -> None:
    served, upstream.reply = serve(), calling
    for text in ("Be nice.", "Be brief."):
        post(served, [{"role": "system", "content": text}, *ASKED])
    upstream.calls.clear()
    post(served, [CLOCK[0], *ASKED, TOLD, *RESULTS])
    assert called(upstream)[0] == "planner"


POLICY = """[policy]
rules = [{label = "one", never = ["two"]}]
[models.first]
"""
FIRST, NEXT = "How high is it?", "Mail it."
POST = {"role": "user", "content": FIRST}


def mailing(call: Call) -> Reply:
    if call.body["model"] != "planner":
        return says(call, "It is 330 m high." if call.body["model"] == "one" else "sent")
    worker = "two" if NEXT in str(call.body["messages"]) else "one"
    return says(call, f'{{"worker": "{worker}", "subtask": "Do it.", "access": []}}\n')


def test_a_stored_response_is_continued(serve: Serve, upstream: ChatServer) -> None:
    upstream.reply, client = mailing, serve(models=POLICY).http()
    first = client.post("/responses", json={"model": "first", "input": FIRST}).json()
    more = {"input": NEXT, "previous_response_id": first["id"]}
    assert "two" in client.post("/responses", json={"model": "first", **more}).text
    assert "two" not in called(upstream)


@pytest.mark.parametrize("retention", [None, 0])
def test_only_the_answers_of_the_key_count(serve: Serve, upstream: ChatServer, retention: int | None) -> None:
    upstream.reply, served = mailing, serve(models=POLICY, keys=True)
    alice, bob = (served.http(served.key(retention_days=retention)) for _ in range(2))

    def is_answered(client: httpx2.Client, *more: Any) -> bool:
        body = {"model": "first", "messages": [POST, *more]}
        return client.post("/chat/completions", json=body).is_success

    later = ({"role": "assistant", "content": "It is 330 m high."}, {"role": "user", "content": NEXT})
    assert is_answered(alice)
    assert is_answered(bob, *later)
    assert not is_answered(alice, *later)
