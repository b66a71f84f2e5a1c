"""Steps in the middle of a plan call tools of a client: each API, whole and streamed, and loops of SDKs."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from anthropic import Anthropic, beta_tool
from server.scene import CONFIG, Serve, process
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served

ASKED: Any = [{"role": "user", "content": "Is all well?"}]
PARAMETERS: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NAMES = {"Mend": ("edit", "test"), "Look": ("look",), "Tell": ()}
"""By the first word of a subtask, the tools that its worker calls one after the other."""
PLAN = "".join(
    json.dumps({"worker": worker, "subtask": subtask, "access": access}) + "\n"
    for worker, subtask, access in (
        ("one", "Mend it.", []),
        ("two", "Look at it.", []),
        ("one", "Tell.", [0, 1]),
    )
)
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

    def __init__(self, root: str, *, stream: bool, **more: Any) -> None:
        self.client = openai.OpenAI(base_url=f"{root}/v1", api_key="none", max_retries=0, timeout=30)
        self.stream, self.more, self.said = stream, more, [*ASKED]

    def turn(self) -> tuple[list[str], str]:
        """Send the conversation; return the names of the tools that were called, and the text."""
        functions = [{"name": name, "parameters": PARAMETERS} for name in ("edit", "test", "look")]
        tools: Any = [{"type": "function", "function": function} for function in functions]
        given: Any = {"model": "podium", "messages": self.said, "tools": tools, **self.more}
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


class Responses:
    """A client of the Responses API: the server has the conversation, or the client sends it whole."""

    def __init__(self, root: str, *, stream: bool, is_held: bool = True, **more: Any) -> None:
        self.client = openai.OpenAI(base_url=f"{root}/v1", api_key="none", max_retries=0, timeout=30)
        self.stream, self.more, self.is_held = stream, more, is_held
        self.said: list[Any] = [*ASKED]
        self.before: str | None = None

    def turn(self) -> tuple[list[str], str]:
        """As `Chat.turn`."""
        tools: Any = [
            {"type": "function", "name": name, "parameters": PARAMETERS, "strict": False}
            for name in ("edit", "test", "look")
        ]
        given: Any = {"model": "podium", "input": self.said, "tools": tools, **self.more}
        given |= {"previous_response_id": self.before} if self.is_held else {"store": False}
        if self.stream:
            with self.client.responses.stream(**given) as events:
                answer = events.get_final_response()
        else:
            answer = self.client.responses.create(**given)
        calls = [item for item in answer.output if item.type == "function_call"]
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"did {call.name}"}
            for call in calls
        ]
        made = [call.model_dump(include={"type", "call_id", "name", "arguments"}) for call in calls]
        self.said = results if self.is_held else [*self.said, *made, *results]
        self.before = answer.id
        return [call.name for call in calls], answer.output_text


class Messages:
    """A client of the Messages API."""

    def __init__(self, root: str, *, stream: bool, **more: Any) -> None:
        self.client = Anthropic(base_url=root, api_key="none", max_retries=0, timeout=30)
        self.stream, self.said = stream, [*ASKED]
        self.more = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}} if more else {}

    def turn(self) -> tuple[list[str], str]:
        """As `Chat.turn`."""
        tools: Any = [{"name": name, "input_schema": PARAMETERS} for name in ("edit", "test", "look")]
        given: Any = {"model": "podium", "max_tokens": 99, "messages": self.said, "tools": tools, **self.more}
        if self.stream:
            with self.client.messages.stream(**given) as events:
                message = events.get_final_message()
        else:
            message = self.client.messages.create(**given)
        calls = [block for block in message.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": f"did {block.name}"}
            for block in calls
        ]
        self.said += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        return [block.name for block in calls], "".join(
            block.text for block in message.content if block.type == "text"
        )


def whole(root: str, **more: Any) -> Responses:
    """Return a client of the Responses API that sends the whole conversation."""
    return Responses(root, is_held=False, **more)


def models(upstream: ChatServer) -> list[str]:
    """Return the models that were called, of each turn in order."""
    return [call.body["model"] for call in upstream.calls]


@pytest.fixture
def served(serve: Serve) -> Served:
    """Return a server without runs: the ids of the calls are those of other tests."""
    return serve()


@pytest.mark.parametrize(
    ("api", "stream"), [(Chat, False), (Chat, True), (Responses, True), (Messages, True), (whole, False)]
)
def test_steps_call_tools(api: Any, served: Served, upstream: ChatServer, *, stream: bool) -> None:
    """The calls of all steps are one answer, each result is for its step, and no model is called twice."""
    upstream.reply = calling
    client = api(served.root, stream=stream)
    turns = [client.turn() for _ in range(3)]
    client.client.close()
    assert turns == [(["edit", "look"], ""), (["test"], ""), ([], ANSWER)]
    assert sorted(models(upstream)) == sorted(MODELS)


@pytest.mark.parametrize("api", [Chat, Messages])
def test_one_call_at_a_time(api: Any, served: Served, upstream: ChatServer) -> None:
    """If the client forbids parallel calls."""
    upstream.reply = calling
    client = api(served.root, stream=False, parallel_tool_calls=False)
    turns = [client.turn() for _ in range(4)]
    client.client.close()
    assert [names for names, _ in turns] in (
        [["edit"], ["test"], ["look"], []],
        [["edit"], ["look"], ["test"], []],
    )
    assert (turns[-1][1], sorted(models(upstream))) == (ANSWER, sorted(MODELS))


@pytest.mark.long
@pytest.mark.parametrize("api", [Chat, Responses, Messages])
def test_a_server_that_is_killed_between_all_turns(
    api: Callable[..., Any], postgres_url: str, upstream: ChatServer, tmp_path: Path
) -> None:
    """The next process continues, also the conversations that clients hold."""
    text = CONFIG.format(url=upstream.url, models="", server="")
    text = text.replace('path = "runs.db"', f'url = "{postgres_url}"')
    (tmp_path / "podium.toml").write_text(text)
    upstream.reply = calling
    client, turns = None, []
    for _ in range(3):
        with process(tmp_path) as running:
            root = running.url.removesuffix("/v1")
            client = client or api(root, stream=False)
            client.client.base_url = root if api is Messages else f"{root}/v1"
            turns.append(client.turn())
            os.kill(running.pid, signal.SIGKILL)
            running.wait(10)
    assert turns == [(["edit", "look"], ""), (["test"], ""), ([], ANSWER)]
    assert sorted(models(upstream)) == sorted(MODELS)


def test_the_loop_of_anthropic(served: Served, upstream: ChatServer) -> None:
    """Its tool runner asks the server to hold the conversation, and sends it whole if the server does not."""
    upstream.reply = calling
    done: list[str] = []

    def made(tool: str) -> Any:
        def run(name: str) -> str:
            """Work on a part."""
            done.append(f"{name}.{tool}")
            return f"did {tool}"

        run.__name__ = tool
        return beta_tool(run)

    given: Any = {"model": "podium", "max_tokens": 99, "messages": ASKED}
    with Anthropic(base_url=served.root, api_key="none", max_retries=0, timeout=30) as client:
        tools = [made(name) for name in ("edit", "test", "look")]
        runner: Any = client.beta.messages.tool_runner(**given, tools=tools, stream=True)
        last = [turn.get_final_message() for turn in runner][-1]
    assert last.content[-1].text == ANSWER
    assert sorted(done) == ["Look.look", "Mend.edit", "Mend.test"]
    assert sorted(models(upstream)) == sorted(MODELS)
