"""Chat completions with OpenAI's client."""

from typing import Any

import openai
import pytest
from server.scene import ASKED, Serve, team
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served


def test_a_whole_answer(served: Served) -> None:
    client = served.client()
    raw = client.chat.completions.with_raw_response.create(model="podium", messages=ASKED)
    answer = raw.parse()
    assert answer.choices[0].message.content == "the answer"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model.startswith("podium-")
    assert client.chat.completions.create(model=answer.model, messages=ASKED).model == answer.model
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


def test_a_worker_as_itself(serve: Serve, upstream: ChatServer) -> None:
    served = serve(models='[models.raw]\nworker = "two"\n')
    asked: Any = [{"role": "system", "content": "Be short."}, *ASKED]
    answer = served.client().chat.completions.create(model="raw", messages=asked)
    assert answer.choices[0].message.content == "the answer"
    assert [call.body["messages"] for call in upstream.calls] == [asked]
    assert answer.usage is not None
    assert answer.usage.total_tokens == 218


def test_a_planner_that_speaks_turn_by_turn(serve: Serve, upstream: ChatServer) -> None:
    call = '<tool_call>{"name": "two", "arguments": {"request": "Say it."}}</tool_call>'

    def reply(asked: Call) -> Reply:
        if asked.body["model"] == "planner":
            return says(asked, "so it is" if len(asked.body["messages"]) > 2 else call)
        return team(asked)

    upstream.reply = reply
    client = serve(planner="turns = 4").client()
    answer = client.chat.completions.create(model="podium", messages=ASKED)
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(model="podium", messages=ASKED, **options))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert (answer.choices[0].message.content, streamed) == ("so it is", "so it is")
    for usage in (answer.usage, chunks[-1].usage):
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (211, 7, 3 * 218)
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with pytest.raises(openai.BadRequestError, match="leave out tools"):
        client.chat.completions.create(model="podium", messages=ASKED, tools=tools)


def test_the_list_of_models(served: Served) -> None:
    """Without `[models]`, the conductor of the file and two presets; an unknown one is a 404."""
    client = served.client()
    assert [model.id for model in client.models.list()] == ["podium", "mini", "ultra"]
    assert client.models.retrieve("mini").id == "mini"
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nothing", messages=ASKED)
    assert caught.value.code == "model_not_found"
