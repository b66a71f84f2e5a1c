"""The turn with the results of tools continues the run that called them, also in another process."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, team
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served
from servers.shop import Shop, shop

Post = Callable[[str, Any], Any]
FUNCTION: Any = {"name": "add", "parameters": {"type": "object"}}
TOOLS = [{"type": "function", "function": FUNCTION}]
CALLS = [
    {"id": f"call_{n}", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    for n in (1, 2)
]


def calling(call: Call) -> Reply:
    """Reply as the team, whose last worker calls tools until it has a result."""
    if call.body["model"] != "two" or call.body["messages"][-1]["role"] == "tool":
        return team(call)
    return says(call, "", tool_calls=CALLS, finish_reason="tool_calls")


def chat(post: Post) -> list[Callable[[], str]]:
    """Return the two turns of a conversation in chat completions; each returns its text."""
    body = {"model": "podium", "messages": ASKED, "tools": TOOLS}
    asked: list[Any] = []

    def first() -> str:
        answer = post("/chat/completions", body)
        calls = answer["choices"][0]["message"]["tool_calls"]
        asked.append({"role": "assistant", "content": None, "tool_calls": calls})
        asked.extend({"role": "tool", "tool_call_id": each["id"], "content": "3"} for each in calls)
        return ""

    def second() -> str:
        answer = post("/chat/completions", {**body, "messages": [*ASKED, *asked]})
        return str(answer["choices"][0]["message"]["content"])

    return [first, second]


def poster(root: str, key: str = "none") -> Post:
    """Return a function that posts a body to a server, and returns the answer."""

    def post(path: str, body: Any) -> Any:
        answer = httpx2.post(root + path, json=body, headers={"x-api-key": key}, timeout=20)
        assert answer.status_code == 200, answer.text
        return None if body.get("stream") else answer.json()

    return post


def models(upstream: ChatServer) -> list[str]:
    """Return the models that were called."""
    return [call.body["model"] for call in upstream.calls]


@pytest.mark.parametrize("rules", [{}, {"retention_days": 0}], ids=["recorded", "not recorded"])
def test_another_key(rules: Any, keyed: Served, upstream: ChatServer) -> None:
    """It continues no run of others, although it knows the calls; a key without texts leaves none."""
    upstream.reply = calling
    own, other = keyed.key(**rules), keyed.key(**rules)
    for turn in chat(poster(keyed.url, own)):
        turn()
    assert models(upstream)[3:] == ["two"]
    body = {"model": "podium", "messages": [*ASKED, TOLD, *RESULTS], "tools": TOOLS}
    poster(keyed.url, other)("/chat/completions", body)
    assert models(upstream)[4:] == ["planner", "one", "two"]
    assert bool(keyed.http(own).get("/runs").json()["data"]) == (not rules)


def test_a_run_that_was_deleted(served: Served, upstream: ChatServer) -> None:
    """The turn is planned again."""
    upstream.reply = calling
    post = poster(served.url)
    first, second = chat(post)
    first()
    (run,) = httpx2.get(f"{served.url}/runs").json()["data"]
    assert httpx2.delete(f"{served.url}/runs/{run['id']}").status_code == 200
    assert second() == "the answer"
    assert models(upstream)[3:] == ["planner", "one", "two"]


@pytest.fixture
def orders() -> Iterator[Shop]:
    """Serve a shop whose tool refunds orders."""
    with shop() as served:
        yield served


def _acting(call: Call) -> Reply:
    """As `calling`, with a plan whose first step refunds an order."""
    if call.body["model"] != "planner":
        return calling(call) if not any(_is_result(said) for said in call.body["messages"]) else team(call)
    steps = (("shop.refund", '{"order": 1017}', []), ("one", "Read.", []), ("two", "Write.", [0, 1]))
    rows = [{"worker": worker, "subtask": text, "access": access} for worker, text, access in steps]
    return says(call, "".join(json.dumps(row) + "\n" for row in rows))


def _is_result(message: Any) -> bool:
    return bool(message["role"] == "tool")


CLOCK = [{"role": "system", "content": f"It is 10:00:0{second}."} for second in (0, 7)]
TOLD = {"role": "assistant", "content": None, "tool_calls": CALLS}
RESULTS = [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in CALLS]
MORE = {"role": "user", "content": "Thank you."}
OTHER = [{"type": "function", "function": {**FUNCTION, "name": "look"}}]
CHANGES: dict[str, tuple[list[Any], list[Any], list[Any], list[str]]] = {
    # the messages of both turns, the tools of the second, and the models that it calls
    "another system message": ([CLOCK[0], *ASKED], [CLOCK[1], *ASKED, TOLD, *RESULTS], TOOLS, ["two"]),
    "both": ([CLOCK[0], *ASKED], [CLOCK[1], *ASKED, TOLD, *RESULTS, MORE], TOOLS, ["two"]),
    "another agent": (
        [CLOCK[0], *ASKED],
        [CLOCK[1], *ASKED, TOLD, *RESULTS],
        OTHER,
        ["planner", "one", "two"],
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("case", CHANGES)
def test_a_conversation_that_has_changed(case: str, serve: Serve, upstream: ChatServer, orders: Shop) -> None:
    """The calls are those of the run: no action is repeated; with other tools, the turn is planned again."""
    first, second, tools, called = CHANGES[case]
    upstream.reply = _acting
    post = poster(serve(models=orders.patient).url)
    body = {"model": "podium", "tools": TOOLS}
    post("/chat/completions", {**body, "messages": first})
    upstream.calls.clear()
    answer = post("/chat/completions", {**body, "tools": tools, "messages": second})
    assert (answer["podium"]["status"], answer["podium"]["problem"]) == ("ok", None)
    assert [action["end"] for action in answer["podium"]["actions"]] == ["done"]
    assert (models(upstream), orders.refunds) == (called, [1017])
    seen = upstream.calls[-1].body["messages"]
    assert [said["content"] for said in seen if said in CLOCK] == [m["content"] for m in second if m in CLOCK]


def test_calls_whose_ids_are_not_unique(served: Served, upstream: ChatServer) -> None:
    """If two conversations have the same question and ids, none continues the run of the other."""
    upstream.reply = calling
    post = poster(served.url)
    body = {"model": "podium", "tools": TOOLS}
    for text in ("Be nice.", "Be brief."):
        post("/chat/completions", {**body, "messages": [{"role": "system", "content": text}, *ASKED]})
    upstream.calls.clear()
    post("/chat/completions", {**body, "messages": [CLOCK[0], *ASKED, TOLD, *RESULTS]})
    assert models(upstream)[0] == "planner"
