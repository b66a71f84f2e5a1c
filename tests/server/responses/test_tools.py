"""Custom tools and tools of namespaces: workers get functions, and clients get calls of their tools."""

import json
from typing import Any

import openai
import pytest
from server.responses.test_events import check
from server.responses.test_responses import ASKED, TOOLS
from server.scene import called, team
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served

PATCH: Any = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
LONG = "a_tool_whose_name_with_that_of_its_namespace_is_too_long"
FILES: Any = {"type": "namespace", "name": "mcp__files__", "description": "Files."}
FILES["tools"] = [
    *({"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("read", LONG)),
    {"type": "custom", "name": "write"},
]
EVERY: Any = [*TOOLS, PATCH, FILES, {"type": "web_search"}, {"type": "image_generation"}]


def calling(name: str, arguments: str) -> Any:
    """Return the reply of a team whose last worker calls a tool, and answers when it has the result."""

    def reply(call: Call) -> Reply:
        if call.body["model"] != "two" or any(message["role"] == "tool" for message in call.body["messages"]):
            return team(call)
        calls = [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}]
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")

    return reply


def offered(upstream: ChatServer) -> dict[str, Any]:
    functions = [tool["function"] for tool in upstream.calls[-1].body["tools"]]
    return {function["name"]: function for function in functions}


def test_tools_are_offered_as_functions(served: Served, upstream: ChatServer) -> None:
    answer = served.client().responses.create(model="podium", input=ASKED, tools=EVERY)
    names = offered(upstream)
    assert list(names)[:3] == ["add", "apply_patch", "mcp__files__read"]
    assert "start: /.+/" in names["apply_patch"]["description"]
    assert names["apply_patch"]["parameters"]["required"] == ["input"]
    assert all(len(name) <= 64 for name in names)
    assert (len(names), [tool.type for tool in answer.tools]) == (5, ["function", "custom", "namespace"])
    facts: Any = answer.model_extra
    assert facts["podium"]["ignored_tools"] == ["web_search", "image_generation"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "arguments", "kind", "fields"),
    [
        ("apply_patch", '{"input": "a\\nb"}', "custom_tool_call", {"name": "apply_patch", "input": "a\nb"}),
        ("apply_patch", '{"text": "a"}', "custom_tool_call", {"input": '{"text": "a"}'}),
        ("mcp__files__read", "{}", "function_call", {"namespace": "mcp__files__", "name": "read"}),
        ("unknown", "{}", "function_call", {"name": "unknown", "arguments": "{}"}),
    ],
)
def test_calls_and_their_results(
    served: Served, upstream: ChatServer, name: str, arguments: str, kind: str, fields: Any
) -> None:
    upstream.reply = calling(name, arguments)
    client = served.client()
    asked: Any = {"model": "podium", "input": ASKED, "tools": EVERY, "store": False}
    events: list[Any] = list(client.responses.create(**asked, stream=True))
    check([event.to_dict() for event in events])
    output = events[-1].response.output
    call = output[-1]
    assert call.type == kind
    assert {field: getattr(call, field) for field in fields} == fields
    result = {"type": f"{kind}_output", "call_id": call.call_id, "output": "done"}
    again = [{"role": "user", "content": ASKED}, *(item.to_dict() for item in output), result]
    answer = client.responses.create(**{**asked, "input": again})
    assert answer.output_text == "the answer"
    made, said = upstream.calls[-1].body["messages"][-2:]
    assert (made["tool_calls"][0]["function"]["name"], said["content"]) == (name, "done")
    if kind == "custom_tool_call":
        assert json.loads(made["tool_calls"][0]["function"]["arguments"]) == {"input": call.input}
    assert called(upstream) == ["planner", "one", "two", "two"]


def test_a_tool_choice(served: Served, upstream: ChatServer) -> None:
    """It may name any tool of the client; a name of another type is an error."""
    client = served.client()
    cases: list[tuple[Any, str]] = [
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "read"}, "mcp__files__read"),
        ({"type": "function", "name": "read", "namespace": "mcp__files__"}, "mcp__files__read"),
    ]
    for choice, name in cases:
        upstream.reply = calling(name, "{}")
        client.responses.create(model="podium", input=ASKED, tools=EVERY, tool_choice=choice)
        assert upstream.calls[-1].body["tool_choice"] == {"type": "function", "function": {"name": name}}
        allowed: Any = {"type": "allowed_tools", "mode": "auto", "tools": [choice]}
        client.responses.create(model="podium", input="Again?", tools=EVERY, tool_choice=allowed)
        assert list(offered(upstream)) == [name]
    wrong: Any = {"type": "custom", "name": "nothing"}
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="podium", input=ASKED, tools=EVERY, tool_choice=wrong)
