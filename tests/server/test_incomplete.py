"""A user of a plain client, who never reads `podium`, notices an incomplete answer in each API."""

import re
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from contracts.incomplete_contract import ANSWER, OBJECT
from server.scene import ASKED, Serve, team as usual
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served

PLAN = (
    '{"worker": "one", "subtask": "Collect facts.", "access": []}\n'
    '{"worker": "two", "subtask": "Collect more facts.", "access": []}\n'
    '{"worker": "two", "subtask": "Write the answer.", "access": [0, 1]}\n'
)
SENTENCE = r"\n\n\(Not complete: the answer was made without step 0 \(one\): .*\)"
SCHEMA = {"type": "object", "properties": {"value": {"type": "integer"}}}
Seen = tuple[str, Any]
"""The text, and why it ended."""


def team(answer: str, *, is_complete: bool) -> Callable[[Call], Reply]:
    """Return the models of a team, of which the first worker may fail."""

    def reply(call: Call) -> Reply:
        match call.body["model"]:
            case "planner":
                return says(call, PLAN)
            case "one":
                return says(call, "facts") if is_complete else whole({}, status=400)
        return says(call, answer)

    return reply


def chat(client: openai.OpenAI, *, stream: bool, is_text: bool) -> Seen:
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    options: Any = {} if is_text else {"response_format": form}
    found = client.chat.completions.create(model="podium", messages=ASKED, stream=stream, **options)
    if not stream:
        return found.choices[0].message.content, found.choices[0].finish_reason
    choices = [chunk.choices[0] for chunk in found if chunk.choices]
    return "".join(each.delta.content or "" for each in choices), choices[-1].finish_reason


def respond(client: openai.OpenAI, *, stream: bool, is_text: bool) -> Seen:
    form: Any = {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}
    options: Any = {} if is_text else {"text": form}
    found: Any = client.responses.create(model="podium", input="Why?", stream=stream, **options)
    if not stream:
        return found.output_text, found.status
    events: list[Any] = list(found)
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text
    return text, events[-1].response.status


def messages(client: openai.OpenAI, *, stream: bool, is_text: bool) -> Seen:
    root = str(client.base_url).removesuffix("/v1/")
    form: Any = {} if is_text else {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    body: Any = {"model": "podium", "messages": ASKED, "max_tokens": 100, **form}
    with anthropic.Anthropic(base_url=root, api_key="none", max_retries=0) as own:
        if stream:
            with own.messages.stream(**body) as events:
                found = events.get_final_message()
        else:
            found = own.messages.create(**body)
    return "".join(block.text for block in found.content if block.type == "text"), found.stop_reason


ENDS = {chat: ("stop", "length"), respond: ("completed", "incomplete"), messages: ("end_turn", "max_tokens")}


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("ask", ENDS)
def test_each_api(ask: Any, serve: Serve, upstream: ChatServer, *, stream: bool, is_text: bool) -> None:
    client, answer = serve().client(), ANSWER if is_text else OBJECT
    whole_end, short_end = ENDS[ask]
    upstream.reply = team(answer, is_complete=True)
    assert ask(client, stream=stream, is_text=is_text) == (answer, whole_end)
    upstream.reply = team(answer, is_complete=False)
    text, end = ask(client, stream=stream, is_text=is_text)
    assert re.fullmatch(re.escape(answer) + (SENTENCE if is_text else ""), text), text
    assert end == (whole_end if is_text else short_end)


@pytest.mark.parametrize("ask", ENDS)
def test_a_cut_answer(ask: Any, served: Served, upstream: ChatServer) -> None:
    upstream.reply = lambda call: (
        says(call, "half", finish_reason="length") if call.body["model"] == "two" else usual(call)
    )
    assert ask(served.client(), stream=False, is_text=True) == ("half", ENDS[ask][1])
