"""A worker that is served under its own name: its provider gets the fields that Podium does not know."""

from typing import Any

import openai
import pytest
from server.scene import ASKED, Serve
from servers.chat_server import USAGE, Call, ChatServer, Reply, events, says, whole

RAW = '[models.raw]\nworker = "two"\n'
LIKELY = {"content": [{"token": "one", "logprob": -0.5, "bytes": None, "top_logprobs": []}], "refusal": None}
NAMED: dict[str, Any] = {
    "n": 2,
    "logprobs": True,
    "top_logprobs": 2,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "logit_bias": {"50256": -100},
    "verbosity": "low",
    "reasoning_effort": "minimal",
}
OWN = {"top_k": 3, "chat_template_kwargs": {"enable_thinking": False}}


def two_answers(call: Call) -> Reply:
    """Answer with two choices, whole or streamed, and with the log probabilities of the first."""
    end = {"finish_reason": "stop"}
    if not call.body.get("stream"):
        choices = [
            {"index": index, "message": {"role": "assistant", "content": text}, "logprobs": known, **end}
            for index, text, known in [(0, "one", LIKELY), (1, "other", None)]
        ]
        return whole({"choices": choices, "model": "two-0", "usage": USAGE})
    pieces = [(1, "oth", None, {}), (0, "one", LIKELY, {}), (1, "er", None, end), (0, "", None, end)]
    chunks = [
        {"choices": [{"index": index, "delta": {"content": text}, "logprobs": known, **more}]}
        for index, text, known, more in pieces
    ]
    return events(*chunks, {"choices": [], "usage": USAGE})


def test_allowed_tools(serve: Serve, upstream: ChatServer) -> None:
    upstream.reply = lambda call: says(call, "done")
    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": {}}} for name in ("a", "b", "c")
    ]
    named = [{"type": "function", "function": {"name": name}} for name in ("b", "c")]
    choice: Any = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": named}}
    client = serve(models=RAW).client()
    client.chat.completions.create(model="raw", messages=ASKED, tools=tools, tool_choice=choice)
    sent = upstream.calls[0].body
    assert ([tool["function"]["name"] for tool in sent["tools"]], sent["tool_choice"]) == (["b", "c"], "auto")
    named.append({"type": "function", "function": {"name": "d"}})
    with pytest.raises(openai.BadRequestError, match="the tools are a, b, c"):
        client.chat.completions.create(model="raw", messages=ASKED, tools=tools, tool_choice=choice)


def test_fields_of_the_provider(serve: Serve, upstream: ChatServer) -> None:
    upstream.reply = two_answers
    client = serve(models=RAW).client()
    answer = client.chat.completions.create(model="raw", messages=ASKED, extra_body=OWN, **NAMED)
    assert (NAMED | OWN).items() <= upstream.calls[0].body.items()
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [(0, "one"), (1, "other")]
    likely = answer.choices[0].logprobs
    assert likely is not None
    assert likely.to_dict() == LIKELY
    assert answer.usage is not None
    assert answer.usage.completion_tokens == USAGE["completion_tokens"]
    with client.chat.completions.stream(model="raw", messages=ASKED, n=2, logprobs=True) as stream:
        answer = stream.get_final_completion()
    assert {choice.index: choice.message.content for choice in answer.choices} == {0: "one", 1: "other"}
    likely = answer.choices[0].logprobs
    assert likely is not None
    assert [each.token for each in likely.content or ()] == ["one"]


def test_refused_fields(serve: Serve, upstream: ChatServer) -> None:
    """By a conductor, whose plan could not honour them; by the provider, in its words without its address."""
    told = {"error": {"message": "n must be at most 8 here", "code": "bad_n"}}
    upstream.reply = lambda _: whole(told, status=422)
    client = serve(models=f'{RAW}efforts.high.worker = "deep"\n[models.team]\n').client()
    for key in ("n", "top_k"):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="team", messages=ASKED, extra_body={key: 2})
        assert caught.value.param == key
    more = {"top_k": 3, "reasoning_effort": "huge"}
    with pytest.raises(openai.BadRequestError, match="'huge' is unknown: write none, minimal"):
        client.chat.completions.create(model="raw", messages=ASKED, extra_body=more)
    assert not upstream.calls
    with pytest.raises(openai.BadRequestError, match="n must be at most 8 here") as caught:
        client.chat.completions.create(model="raw", messages=ASKED, n=9)
    assert caught.value.code == "worker_refused"
    assert upstream.url not in str(caught.value)
