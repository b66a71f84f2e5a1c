"""Steps in the middle of a plan call tools of a client, also of a server that is killed between its turns."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import openai
import pytest
from server.scene import Serve, called, config, process
from servers.chat_server import Call, ChatServer, Reply, says

ASKED: Any = [{"role": "user", "content": "Is all well?"}]
PARAMETERS: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NAMES = {"Mend": ("edit", "test"), "Look": ("look",), "Tell": ()}
"""By the first word of a subtask, the tools that its worker calls one after the other."""
ROWS = (("one", "Mend it.", []), ("two", "Look at it.", []), ("one", "Tell.", [0, 1]))
PLAN = "\n".join(json.dumps(dict(zip(("worker", "subtask", "access"), row, strict=True))) for row in ROWS)
ANSWER = "Tell: Mend: did edit, did test; Look: did look"
MODELS = ["planner", "one", "two", "one", "two", "one", "one"]


def calling(call: Call) -> Reply:
    """Reply as the planner, or as a worker that calls tools, which have numbers of their own."""
    if call.body["model"] == "planner":
        return says(call, PLAN)
    messages = call.body["messages"]
    asked = next(each["content"] for each in messages if each["role"] == "user")
    word = max(NAMES, key=asked.rfind)  # its subtask is at the end
    done = [each["content"] for each in messages if each["role"] == "tool"]
    if len(done) < len(NAMES[word]):
        assert {tool["function"]["name"] for tool in call.body["tools"]} == {"edit", "test", "look"}
        function = {"name": NAMES[word][len(done)], "arguments": json.dumps({"name": word})}
        calls = [{"id": f"call_{len(done)}", "type": "function", "function": function}]
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")
    assert done == [f"did {name}" for name in NAMES[word]]
    if word != "Tell":
        return says(call, f"{word}: {', '.join(done)}")
    parts = ("Mend: did edit, did test", "Look: did look")
    return says(call, "Tell: " + "; ".join(part for part in parts if part in asked))


class Chat:
    """A client of chat completions that sends the whole conversation."""

    def __init__(self, url: str, *, stream: bool) -> None:
        self.client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=30)
        self.stream, self.said = stream, [*ASKED]

    def turn(self) -> tuple[list[str], str]:
        """Send the conversation; return the names of the tools that were called, and the text."""
        functions = [{"name": name, "parameters": PARAMETERS} for name in ("edit", "test", "look")]
        tools: Any = [{"type": "function", "function": function} for function in functions]
        given: Any = {"model": "podium", "messages": self.said, "tools": tools}
        if self.stream:
            with self.client.chat.completions.stream(**given) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = self.client.chat.completions.create(**given).choices[0].message
        calls = [each.model_dump(include={"id", "type", "function"}) for each in message.tool_calls or ()]
        self.said.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        for call in calls:
            call["function"] = {key: call["function"][key] for key in ("name", "arguments")}
            told = f"did {call['function']['name']}"
            self.said.append({"role": "tool", "tool_call_id": call["id"], "content": told})
        return [call["function"]["name"] for call in calls], message.content or ""


@pytest.mark.parametrize("stream", [False, True])
def test_steps_call_tools(serve: Serve, upstream: ChatServer, *, stream: bool) -> None:
    upstream.reply = calling
    client = Chat(serve().url, stream=stream)
    turns = [client.turn() for _ in range(3)]
    client.client.close()
    assert turns == [(["edit", "look"], ""), (["test"], ""), ([], ANSWER)]
    assert sorted(called(upstream)) == sorted(MODELS)


@pytest.mark.long
def test_a_server_that_is_killed(postgres_url: str, upstream: ChatServer, tmp_path: Path) -> None:
    """After each turn."""
    (tmp_path / "podium.toml").write_text(config(upstream.url, postgres_url))
    upstream.reply = calling
    client, turns = None, []
    for _ in range(3):
        with process(tmp_path) as running:
            client = client or Chat(running.url, stream=False)
            client.client.base_url = running.url
            turns.append(client.turn())
            os.kill(running.pid, signal.SIGKILL)
            running.wait(10)
    assert turns == [(["edit", "look"], ""), (["test"], ""), ([], ANSWER)]
    assert sorted(called(upstream)) == sorted(MODELS)
