"""What scripted models plan and say, and agents that ask them."""

import json
from collections.abc import Mapping
from typing import Any

from autogen.speaking import ModelServer
from autogen_agentchat.agents import AssistantAgent
from servers.chat_server import Call, Reply, says

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


def team(server: ModelServer, **options: Any) -> list[AssistantAgent]:
    names = ("researcher", "coder", "writer")
    return [AssistantAgent(n, server.client(), description=f"A {n}.", **options) for n in names]
