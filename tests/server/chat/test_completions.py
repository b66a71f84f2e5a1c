"""Chat completions with OpenAI's client."""

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from server.scene import ASKED, PLAN, team
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served


def test_a_whole_answer(served: Served) -> None:
    """It has the text, the versioned id, the run's id, the plan as reasoning, and all tokens."""
    raw = served.client().chat.completions.with_raw_response.create(model="podium", messages=ASKED)
    answer = raw.parse()
    assert answer.choices[0].message.content == "the answer"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model.startswith("podium-")
    assert answer.id == f"chatcmpl-{raw.headers['x-podium-run-id']}"
    told: str = answer.choices[0].message.reasoning_content  # type: ignore[attr-defined]
    assert "0. one: Collect facts." in told
    assert "Step 0: ok" in told
    usage = answer.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (211, 7, 3 * 218)
    details: Any = usage.prompt_tokens_details
    assert details.orchestration_input_tokens == 2 * 211


def test_a_streamed_answer(served: Served) -> None:
    """The plan arrives first, then the text in pieces, then the finish reason and the usage."""
    chunks = list(
        served.client().chat.completions.create(
            model="podium", messages=ASKED, stream=True, stream_options={"include_usage": True}
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "the answer"
    assert "Collect facts." in "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [
        "stop"
    ]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 3 * 218
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_the_list_of_models(served: Served) -> None:
    """Without `[models]`, the conductor of the file and two presets."""
    models = served.client().models.list().data
    assert [model.id for model in models] == ["podium", "mini", "ultra"]
    assert served.client().models.retrieve("mini").id == "mini"


def test_a_versioned_id_names_the_model(served: Served) -> None:
    """The id in a response can be used in the next request."""
    client = served.client()
    first = client.chat.completions.create(model="podium", messages=ASKED)
    again = client.chat.completions.create(model=first.model, messages=ASKED)
    assert again.model == first.model


def test_an_unknown_model(served: Served) -> None:
    """It is a 404 with OpenAI's code."""
    with pytest.raises(openai.NotFoundError) as caught:
        served.client().chat.completions.create(model="nothing", messages=ASKED)
    assert caught.value.code == "model_not_found"


def test_a_worker_as_itself(serve: Callable[..., Served], upstream: ChatServer) -> None:
    """It gets the conversation unchanged, and there is no plan."""
    served = serve(models='[models.raw]\nworker = "two"\n')
    asked: Any = [{"role": "system", "content": "Be short."}, *ASKED]
    answer = served.client().chat.completions.create(model="raw", messages=asked)
    assert answer.choices[0].message.content == "the answer"
    assert [call.body["messages"] for call in upstream.calls] == [asked]
    assert answer.usage is not None
    assert answer.usage.total_tokens == 218


def test_tools(served: Served, upstream: ChatServer) -> None:
    """The caller executes the calls, and the next turn continues the plan without a new one."""
    tools: Any = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}

    def reply(asked: Call) -> Reply:
        if asked.body["model"] != "two" or asked.body["messages"][-1]["role"] == "tool":
            return team(asked)
        return says(asked, "", tool_calls=[call], finish_reason="tool_calls")

    upstream.reply = reply
    client = served.client()
    first = client.chat.completions.create(model="podium", messages=ASKED, tools=tools)
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"a": 1}  # type: ignore[union-attr]
    before = len(upstream.calls)
    more: Any = [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]
    second = client.chat.completions.create(model="podium", messages=more, tools=tools)
    assert second.choices[0].message.content == "the answer"
    assert [call.body["model"] for call in upstream.calls[before:]] == ["two"]


def test_a_run_that_fails_is_an_http_error(served: Served, upstream: ChatServer) -> None:
    """With the code of the problem and the id of the run."""
    upstream.reply = lambda call: (
        says(call, PLAN)
        if call.body["model"] == "planner"
        else whole({"error": {"message": "no"}}, status=400)
    )
    with pytest.raises(openai.APIStatusError) as caught:
        served.client().chat.completions.create(model="podium", messages=ASKED)
    assert caught.value.status_code == 502
    assert caught.value.code == "worker_refused"
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_an_idempotency_key_names_the_run(served: Served, upstream: ChatServer) -> None:
    """The same request again returns the recorded answer without calls; another request is a conflict."""
    client = served.client()
    headers = {"Idempotency-Key": "k1"}
    first = client.chat.completions.create(model="podium", messages=ASKED, extra_headers=headers)
    calls = len(upstream.calls)
    again = client.chat.completions.with_raw_response.create(
        model="podium", messages=ASKED, extra_headers=headers
    )
    assert again.headers["idempotent-replayed"] == "true"
    assert again.parse().choices[0].message.content == first.choices[0].message.content
    assert again.parse().usage == first.usage
    assert len(upstream.calls) == calls
    other: Any = [{"role": "user", "content": "Something else?"}]
    with pytest.raises(openai.ConflictError) as caught:
        client.chat.completions.create(model="podium", messages=other, extra_headers=headers)
    assert caught.value.code == "idempotency_key_reused"


@pytest.mark.parametrize("stream", [False, True])
def test_a_planner_that_speaks_turn_by_turn(
    serve: Callable[..., Served], upstream: ChatServer, *, stream: bool
) -> None:
    """Its last message is the answer, with its own tokens; tools of the client are refused."""
    call = '<tool_call>{"name": "two", "arguments": {"request": "Say it."}}</tool_call>'

    def reply(asked: Call) -> Reply:
        if asked.body["model"] == "planner":
            return says(asked, "so it is" if len(asked.body["messages"]) > 2 else call)
        return team(asked)

    upstream.reply = reply
    client = serve(planner="turns = 4").client()
    if stream:
        options: Any = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(client.chat.completions.create(model="podium", messages=ASKED, **options))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        text, usage = "".join(delta.content or "" for delta in deltas), chunks[-1].usage
    else:
        answer = client.chat.completions.create(model="podium", messages=ASKED)
        text, usage = answer.choices[0].message.content or "", answer.usage
    assert text == "so it is"
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (211, 7, 3 * 218)
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with pytest.raises(openai.BadRequestError, match="leave out tools"):
        client.chat.completions.create(model="podium", messages=ASKED, tools=tools)
