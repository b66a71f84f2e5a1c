"""Scripted models for real coding agents: Claude Code (Anthropic's Messages) and Codex (OpenAI's Responses).

`agent_model(think)` is a `reply` of `ChatServer`. `think` gets each request of an agent as a `Turn`, and
returns the command that the agent runs with its own tool, its answer, or `None` for no reply.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from servers.chat_server import STALL, Call, Reply, events, whole


@dataclass(frozen=True)
class Turn:
    """A request of an agent."""

    prompt: str
    results: tuple[str, ...]
    """The results of the commands that the agent has run for this prompt."""


@dataclass(frozen=True)
class Run:
    """The agent runs a command of the shell."""

    command: str


Think = Callable[[Turn], Run | str | None]
"""Returns a command, or an answer: JSON text if the agent asks for a schema. `None` answers never."""


def agent_model(think: Think) -> Callable[[Call], Reply]:
    """Return the script of a server for both APIs."""

    def reply(call: Call) -> Reply:
        if call.path.split("?")[0].endswith("/messages"):
            return _messages(call.body, think)
        if call.path.endswith("/responses"):
            return _responses(call.body, think)
        return whole({}, status=404)

    return reply


def _messages(body: Mapping[str, Any], think: Think) -> Reply:
    parts = [part for message in body["messages"] for part in message["content"] if isinstance(part, dict)]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    results = tuple(json.dumps(part["content"]) for part in parts if part["type"] == "tool_result")
    thought = think(Turn("\n".join(texts), results))
    if thought is None:
        return Reply([STALL])
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": thought}
    if isinstance(thought, Run):
        block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": "Bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": thought.command})}
    usage = {"input_tokens": 1000, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    ending = "tool_use" if isinstance(thought, Run) else "end_turn"
    return _named(
        {"type": "message_start", "message": {**head, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": ending}, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    )


def _responses(body: Mapping[str, Any], think: Think) -> Reply:
    items = body["input"]
    texts = [part["text"] for item in items if item.get("role") == "user" for part in item["content"]]
    results = tuple(json.dumps(i["output"]) for i in items if i["type"] == "function_call_output")
    thought = think(Turn("\n".join(texts), results))
    if thought is None:
        return Reply([STALL])
    if isinstance(thought, Run):
        arguments = json.dumps({"cmd": thought.command, "yield_time_ms": 30_000})
        item = {"type": "function_call", "id": "fc_1", "call_id": f"call_{len(results)}"}
        item |= {"name": "exec_command", "arguments": arguments}
    else:
        text = {"type": "output_text", "text": thought, "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    usage = {"input_tokens": 1000, "output_tokens": 20, "total_tokens": 1020}
    done = {"id": "resp_1", "object": "response", "status": "completed", "model": body["model"]}
    return _named(
        {"type": "response.created", "response": {**done, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**done, "output": [item], "usage": usage}},
    )


def _named(*found: Mapping[str, Any]) -> Reply:
    return events(*(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in found), done=False)
