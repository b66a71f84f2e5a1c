"""The turn with the results of tools continues the run that called them, also in another process."""

from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, team
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served

FUNCTION: Any = {"name": "add", "parameters": {"type": "object"}}
TOOLS = [{"type": "function", "function": FUNCTION}]
CALLS = [
    {"id": f"call_{n}", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    for n in (1, 2)
]


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


def models(upstream: ChatServer) -> list[str]:
    return [call.body["model"] for call in upstream.calls]


@pytest.mark.parametrize("rules", [{}, {"retention_days": 0}], ids=["recorded", "not recorded"])
def test_another_key(rules: Any, keyed: Served, upstream: ChatServer) -> None:
    """It continues no run of others, although it knows the calls; a key without texts leaves none."""
    upstream.reply = calling
    own, other = keyed.key(**rules), keyed.key(**rules)
    turns = ([*ASKED], [*ASKED, TOLD, *RESULTS])
    for messages in turns:
        post(keyed, messages, key=own)
    assert models(upstream)[3:] == ["two"]
    post(keyed, turns[1], key=other)
    assert models(upstream)[4:] == ["planner", "one", "two"]
    assert bool(keyed.http(own).get("/runs").json()["data"]) == (not rules)


CLOCK = [{"role": "system", "content": f"It is 10:00:0{second}."} for second in (0, 7)]
TOLD = {"role": "assistant", "content": None, "tool_calls": CALLS}
RESULTS = [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in CALLS]
MORE = {"role": "user", "content": "Thank you."}
OTHER = [{"type": "function", "function": {**FUNCTION, "name": "look"}}]


@pytest.mark.parametrize(
    ("more", "tools", "called"), [([MORE], TOOLS, ["two"]), ([], OTHER, ["planner", "one", "two"])]
)
def test_a_conversation_that_has_changed(
    more: list[Any], tools: Any, called: list[str], serve: Serve, upstream: ChatServer
) -> None:
    served, upstream.reply = serve(), calling
    post(served, [CLOCK[0], *ASKED])
    upstream.calls.clear()
    answer = post(served, [CLOCK[1], *ASKED, TOLD, *RESULTS, *more], tools)
    assert (answer["podium"]["status"], models(upstream)) == ("ok", called)
    seen = upstream.calls[-1].body["messages"]
    assert [said for said in seen if said in CLOCK] == [CLOCK[1]]


def test_calls_whose_ids_are_not_unique(serve: Serve, upstream: ChatServer) -> None:
    served, upstream.reply = serve(), calling
    for text in ("Be nice.", "Be brief."):
        post(served, [{"role": "system", "content": text}, *ASKED])
    upstream.calls.clear()
    post(served, [CLOCK[0], *ASKED, TOLD, *RESULTS])
    assert models(upstream)[0] == "planner"
