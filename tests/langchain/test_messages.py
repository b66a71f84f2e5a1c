"""Messages, calls and usage of LangChain's and of Podium's, each read as the other."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from langchain_podium import ChatPodium, ConductorRunnable, create_conductor_agent
from langchain_podium.messages import (
    from_langchain,
    read_calls,
    read_usage,
    text_of,
    to_langchain,
    write_calls,
    write_usage,
)
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import QueryError
from podium.planners import FixedPlanner
from podium.types import Message
from podium.usage import Usage
from podium.workers import Card

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (HumanMessage("hi"), Message("user", "hi")),
        (SystemMessage("be brief"), Message("system", "be brief")),
        (
            HumanMessage([{"type": "text", "text": "see"}, IMAGE]),
            Message("user", ({"type": "text", "text": "see"}, IMAGE)),
        ),
        (
            AIMessage("", tool_calls=[{"name": "look", "args": {"x": 1}, "id": "c1"}]),
            Message("assistant", "", (CALL,)),
        ),
        (ToolMessage("found", tool_call_id="c1"), Message("tool", "found", (), "c1")),
    ],
)
def test_messages_go_both_ways(theirs: BaseMessage, ours: Message) -> None:
    """Text, parts, calls and their results."""
    assert from_langchain([theirs]) == (ours,)
    (back,) = to_langchain([ours])
    assert (type(back), from_langchain([back])) == (type(theirs), (ours,))


def test_pictures_of_every_spelling_become_one() -> None:
    """LangChain's own blocks and those of Anthropic's API."""
    own = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    theirs = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    for block in (own, theirs):
        assert from_langchain([HumanMessage([block])]) == (Message("user", (IMAGE,)),)


def test_a_model_s_reasoning_stays_its_own() -> None:
    """Nobody else can be sent it, signed as it is."""
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "yes"},
    ]
    assert from_langchain([AIMessage(blocks)])[0].text == "yes"


@pytest.mark.parametrize("nonsense", [5, {"role": "user"}, [object()], [("martian", "x")], b"x"])
def test_what_is_no_conversation_is_said_to_be_none(nonsense: Any) -> None:
    """In an error of ours."""
    with pytest.raises(QueryError):
        from_langchain(nonsense)


def test_calls_with_broken_arguments_are_kept_apart() -> None:
    """A model may write what is no JSON object; it is kept as it wrote it, both ways."""
    broken = {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"x": '}}
    listed = {"id": "c3", "type": "function", "function": {"name": "look", "arguments": "[1]"}}
    good, bad = read_calls([CALL, broken, listed])
    assert [call["args"] for call in good] == [{"x": 1}]
    assert [call["args"] for call in bad] == ['{"x": ', "[1]"]
    assert write_calls(AIMessage("", tool_calls=good, invalid_tool_calls=bad)) == (CALL, broken, listed)


def test_usage_goes_both_ways() -> None:
    """With what came from a cache and what went on reasoning; a hosted conductor's workers count."""
    usage = Usage(10, 6, cached_tokens=4, reasoning_tokens=2)
    told = write_usage(usage)
    assert told == {
        "input_tokens": 10,
        "output_tokens": 6,
        "total_tokens": 16,
        "input_token_details": {"cache_read": 4},
        "output_token_details": {"reasoning": 2},
    }
    assert read_usage(told) == usage
    hosted = Usage(1, 2, orchestration_input_tokens=10, orchestration_output_tokens=20)
    assert write_usage(hosted) == {"input_tokens": 11, "output_tokens": 22, "total_tokens": 33}
    for nothing in (None, {}, {"input_tokens": "x"}, {"input_tokens": -1, "output_tokens": 0}):
        assert read_usage(nothing) is None


class Found(BaseModel):
    """What a structured chain returns."""

    colour: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        (AIMessage([{"type": "text", "text": "a"}]), "a"),
        ({"messages": [HumanMessage("q"), AIMessage("a")]}, "a"),
        (
            [Document("one", metadata={"source": "a.md", "page": 3}), Document("two")],
            "[a.md, page 3]\none\n\ntwo",
        ),
        (Found(colour="red"), '{"colour": "red"}'),
        ({"found": Found(colour="red"), "n": 1}, '{"found": {"colour": "red"}, "n": 1}'),
        ([1, "zwei ä"], '[1, "zwei ä"]'),
    ],
)
def test_what_runnables_return_becomes_text(value: Any, text: str) -> None:
    """Messages say their text, documents their sources, the rest is JSON."""
    assert text_of(value) == text


@pytest.mark.parametrize("face", ["runnable", "chat model", "graph"])
def test_images_go_to_workers_that_can_see_them(face: str) -> None:
    """And to no others."""
    eyes = ScriptedWorker(Card(name="eyes", parts=frozenset({"image_url"})), "A cat.")
    blind = ScriptedWorker("blind", "A question.")
    conductor = Conductor(FixedPlanner(Plan((Step(0, "look"), Step(1, "read", (0,))))), [eyes, blind])
    asked = [HumanMessage([{"type": "text", "text": "What is it?"}, IMAGE])]
    if face == "graph":
        create_conductor_agent(conductor).invoke({"messages": asked})
    else:
        made = ConductorRunnable(conductor) if face == "runnable" else ChatPodium(conductor=conductor)
        made.invoke(asked)
    seen = ["AAAA" in str(worker.requests[0].messages[-1].content) for worker in (eyes, blind)]
    assert seen == [True, False]
