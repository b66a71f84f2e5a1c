"""Answers requests for messages: the whole message, or its events."""

import json
from typing import Any

from podium.hosts.completions import sse
from podium.hosts.results import run_failed, tool_arguments
from podium.types import Part
from podium.usage import Usage
from podium_server.api.endpoint import told_fault
from podium_server.api.messages.request import CountRequest, MessagesRequest, count_tokens
from podium_server.http import Exchange
from podium_server.http.exchange import fingerprint_of, read_body
from podium_server.keys import Caller
from podium_server.turn import Answered, Turn, Turns

_TEXT = {"type": "text", "citations": []}  # some clients refuse null
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def whole_message(turn: Turn, thinking: str) -> dict[str, Any]:
    """Return the body of a response after the run has ended."""
    answered, content = turn.answered, list[dict[str, Any]]()
    if thinking:
        content.append({"type": "thinking", "thinking": thinking, "signature": turn.run_id})
    if answered.answer.text or not answered.tool_calls:
        content.append({**_TEXT, "text": answered.answer.text})
    content += [{**_tool_use(call), "input": _input(answered, call)} for call in answered.tool_calls]
    end = {"stop_reason": _STOP_REASONS[answered.finish_reason], "usage": usage_form(answered.usage)}
    return {**_head(turn), "content": content, **end, "podium": answered.summary}


class Events:
    """The events of a streamed message."""

    def __init__(self, turn: Turn, *, shows_progress: bool) -> None:
        self._turn = turn
        self._shows_progress = shows_progress
        self._is_begun = False
        self._index = -1
        """Index of the last content block."""
        self._open: str | None = None
        """Type of the last content block, if it has not ended."""

    def ping(self) -> bytes:
        """Return the event that keeps the connection open while there is nothing to send."""
        return self._begin() + event({"type": "ping"})

    def text(self, text: str) -> bytes:
        """Return the events for a piece of the answer."""
        return self._in_block({**_TEXT, "text": ""}) + self._delta({"type": "text_delta", "text": text})

    def progress(self, text: str) -> bytes:
        """Return the events for a piece of text about the progress; empty if the client does not read it."""
        if not self._shows_progress:
            return b""
        begin = self._in_block({"type": "thinking", "thinking": "", "signature": ""})
        return begin + self._delta({"type": "thinking_delta", "thinking": text})

    def end(self) -> bytes:
        """Return the events after the text: tool calls, the stop reason, and the usage."""
        answered = self._turn.answered
        data = self._begin() + self._end_block()
        for call in answered.tool_calls:
            arguments = json.dumps(_input(answered, call), ensure_ascii=False)
            data += self._begin_block({**_tool_use(call), "input": {}})
            data += self._delta({"type": "input_json_delta", "partial_json": arguments})
            data += self._end_block()
        delta = {"stop_reason": _STOP_REASONS[answered.finish_reason], "stop_sequence": None}
        end = {"type": "message_delta", "delta": delta, "usage": usage_form(answered.usage)}
        return data + event({**end, "podium": answered.summary}) + event({"type": "message_stop"})

    def _begin(self) -> bytes:
        """Return the first event; nothing if it was sent."""
        if self._is_begun:
            return b""
        self._is_begun = True
        message = {**_head(self._turn), "content": [], "stop_reason": None, "usage": usage_form(Usage())}
        return event({"type": "message_start", "message": message})

    def _in_block(self, block: dict[str, Any]) -> bytes:
        """Return the events that begin a block of text; nothing if the last block has its type."""
        if self._open == block["type"]:
            return b""
        return self._begin() + self._end_block() + self._begin_block(block)

    def _begin_block(self, block: dict[str, Any]) -> bytes:
        self._index += 1
        self._open = block["type"]
        return event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _end_block(self) -> bytes:
        if self._open is None:
            return b""
        data = b""
        if self._open == "thinking":
            data = self._delta({"type": "signature_delta", "signature": self._turn.run_id})
        self._open = None
        return data + event({"type": "content_block_stop", "index": self._index})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return event({"type": "content_block_delta", "index": self._index, "delta": delta})


def usage_form(usage: Usage) -> dict[str, Any]:
    """Return a usage as messages have it; as Anthropic counts, `input_tokens` has no cached tokens."""
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": None,
        "cache_creation": None,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "server_tool_use": None,
        "service_tier": None,
        "inference_geo": None,
        "orchestration_input_tokens": usage.orchestration_input_tokens,
        "orchestration_input_cached_tokens": usage.orchestration_cached_tokens,
        "orchestration_output_tokens": usage.orchestration_output_tokens,
        "estimated": usage.estimated,
    }


def event(data: dict[str, Any]) -> bytes:
    """Return a server-sent event; its name is the type of the data."""
    return sse(data, event=data["type"])


def _head(turn: Turn) -> dict[str, Any]:
    names = {"id": f"msg_{turn.run_id}", "type": "message", "role": "assistant"}
    unused = {"stop_sequence": None, "stop_details": None, "container": None}
    return {**names, "model": turn.model.versioned_id, **unused}


def _tool_use(call: Part) -> dict[str, Any]:
    named = {"id": call["id"], "name": call["function"]["name"]}
    return {"type": "tool_use", **named, "caller": {"type": "direct"}}


def _input(answered: Answered, call: Part) -> dict[str, Any]:
    arguments = tool_arguments(call)
    if arguments is None:
        told = f"the arguments of the call of the tool {call['function']['name']!r:.60} are not a JSON object"
        raise run_failed(told, answered.answer.result)
    return arguments


PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"


class MessagesApi:
    """`POST /v1/messages` and `POST /v1/messages/count_tokens`."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a request with a message."""
        raw = await exchange.body()
        request = read_body(raw, MessagesRequest)
        asked = request.asked(exchange.idempotency_key(), fingerprint_of(PATH, raw))
        shows = request.shows_thinking

        async def answer() -> None:
            async with self._turns.admitted(caller, asked) as turn:
                exchange.run_id = turn.run_id
                if asked.stream:
                    events = Events(turn, shows_progress=shows)
                    written = turn.frames(events.text, events.progress, events.end)
                    await exchange.stream(
                        written,
                        lambda: _headers(turn),
                        lambda error: event(told_fault(error).to_anthropic()),
                        events.ping,
                    )
                else:
                    progress = await turn.run()
                    message = whole_message(turn, progress if shows else "")
                    await exchange.json(message, headers=_headers(turn))

        await exchange.while_connected(answer)

    async def count(self, exchange: Exchange, caller: Caller) -> None:
        """Estimate the tokens of a request."""
        request = read_body(await exchange.body(), CountRequest)
        caller.check_model(self._turns.catalogue.find(request.model).name)
        await exchange.json({"input_tokens": count_tokens(request), "estimated": True})


def _headers(turn: Turn) -> dict[str, str]:
    return {**turn.headers, "request-id": turn.run_id}
