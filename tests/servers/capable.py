"""Replies like a capable model: it plans if the request is for a plan, calls tools, and answers in a schema.

It is a `reply` of `ChatServer`, and depends only on the request.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from servers.chat_server import Call, Reply, says

PLAN = (
    '{"worker": 0, "subtask": "Find out what is known.", "access": []}\n'
    '{"worker": 1, "subtask": "Answer the question.", "access": [0]}\n'
)
"""Two steps, of which the second answers."""


def capable(call: Call) -> Reply:
    """Reply to a request with a plan, a tool call, JSON, or text that ends before a stop sequence."""
    messages = call.body["messages"]
    if is_planning(call):
        return says(call, PLAN)
    tool = _wanted(call.body, messages)
    if tool is not None:
        arguments = json.dumps(_value(tool.get("parameters", {}), asked_of(messages)), ensure_ascii=False)
        function = {"name": tool["name"], "arguments": arguments}
        calls = [{"id": f"call_{len(messages)}", "type": "function", "function": function}]
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")
    form = call.body.get("response_format")
    if form is not None:
        schema = form["json_schema"]["schema"] if "json_schema" in form else {"type": "object"}
        return says(call, json.dumps(_value(schema, asked_of(messages))))
    returned = [m["content"] for m in messages if m["role"] == "tool"]
    text = f"The tools say {returned[-1]}." if returned else "Hello to you, too."
    for stop in call.body.get("stop") or ():
        text = text.partition(stop)[0]
    return says(call, text)


def is_planning(call: Call) -> bool:
    """Return whether the request is for a plan."""
    return "You are the conductor" in json.dumps(call.body["messages"])


def asked_of(messages: list[dict[str, Any]]) -> str:
    """Return the user's question, from a user's or a worker's messages."""
    texts = [str(m["content"]) for m in messages if m["role"] == "user"]
    found = re.search(r"<question-\w+>\n(.*?)\n</question", texts[-1], re.DOTALL)
    return found[1] if found else texts[-1]


def _wanted(body: Mapping[str, Any], messages: list[dict[str, Any]]) -> Mapping[str, Any] | None:
    """Return the function to call: the required function, or else the first function if none was called."""
    functions = [tool["function"] for tool in body.get("tools") or ()]
    choice = body.get("tool_choice", "auto")
    if not functions or choice == "none":
        return None
    if isinstance(choice, dict):
        return next(f for f in functions if f["name"] == choice["function"]["name"])
    return None if choice == "auto" and messages[-1]["role"] == "tool" else functions[0]


def _value(schema: Mapping[str, Any], asked: str) -> Any:
    """Return a value for the schema, from the question if possible."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: _value(part, asked) for name, part in schema.get("properties", {}).items()}
        case "integer" | "number":
            found = re.search(r"\d+", asked)
            return int(found[0]) if found else 1
        case "array":
            return [_value(schema.get("items", {}), asked)]
        case "boolean":
            return True
    quoted = re.search(r"'([^']+)'", asked)
    return quoted[1] if quoted else "something"
