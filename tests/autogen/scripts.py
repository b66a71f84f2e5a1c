"""What scripted models plan and say, and agents that ask them."""

import json
from collections.abc import Mapping
from typing import Any

from autogen.speaking import ModelServer
from autogen_agentchat.agents import AssistantAgent
from servers.chat_server import Call, Reply, says

from podium.hosts import tool_call

PLAN = (
    '{"worker": "researcher", "subtask": "Find the height.", "access": []}\n'
    '{"worker": "coder", "subtask": "Find the width.", "access": []}\n'
    '{"worker": "writer", "subtask": "Multiply them.", "access": [0, 1]}\n'
)
SAID = {
    "Find the height.": "It is 3 m.",
    "Find the width.": "It is 4 m.",
    "Multiply them.": "12 square metres.",
}


def shown(call: Call) -> str:
    return json.dumps(call.body["messages"], ensure_ascii=False)


def is_planning(call: Call) -> bool:
    return "You are the conductor" in shown(call)


def model(call: Call) -> Reply:
    """Plan when asked to conduct, else say what belongs to the subtask that comes last."""
    if is_planning(call):
        return says(call, PLAN)
    return says(call, said(shown(call), SAID))


def said(text: str, table: Mapping[str, str]) -> str:
    found = max(table, key=text.rfind)
    return table[found] if found in text else "Nothing."


SEARCH = (
    '{"worker": "search", "subtask": "Look it up.", "access": []}\n'
    '{"worker": "model", "subtask": "Say it.", "access": [0]}\n'
)
ONE = '{"worker": 0, "subtask": "Answer it.", "access": []}\n'


def alone(call: Call) -> Reply:
    return says(call, ONE if is_planning(call) else "12 square metres.")


def calling(call: Call, *names: str, arguments: str = '{"city": "Bern"}', text: str = "") -> Reply:
    """Plan; answer the last step with a call of each tool in turn, then with what they returned."""
    if is_planning(call):
        return says(call, SEARCH)
    returned = [m["content"] for m in call.body["messages"] if m["role"] == "tool"]
    if "tools" in call.body and len(returned) < len(names):
        asked = tool_call(f"call-{len(returned)}", names[len(returned)], arguments)
        return says(call, text, finish_reason="tool_calls", tool_calls=[asked])
    return says(call, f"It is {' and '.join(returned)}.")


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"warm in {city}"


def time(city: str) -> str:
    """Tell the time in a city."""
    return f"noon in {city}"


def team(server: ModelServer, **options: Any) -> list[AssistantAgent]:
    names = ("researcher", "coder", "writer")
    return [AssistantAgent(n, server.client(), description=f"A {n}.", **options) for n in names]
