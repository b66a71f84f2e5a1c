"""Saved plans as models and as tools of MCP."""

from pathlib import Path
from typing import Any

import pytest
from server.scene import Serve, called, ended
from servers.chat_server import ChatServer
from servers.mcp_client import connect, http_of
from servers.podium_server import Served

REVIEW = """
name = "review"
description = "Reviews a text."

[parameters.text]
[parameters.style]
type = "short|long"
default = "short"

[[steps]]
worker = "two"
subtask = "A {{style}} review of {{text}}"
access = []
"""


@pytest.fixture
def reviews(serve: Serve, tmp_path: Path) -> Served:
    (tmp_path / "review.toml").write_text(REVIEW, encoding="utf-8")
    return serve(models='[plans]\nreview = "review.toml"')


def ask(served: Served, text: str) -> Any:
    messages: Any = [{"role": "user", "content": text}]
    return served.client().chat.completions.create(model="plan/review", messages=messages)


def test_a_saved_plan_is_a_model(reviews: Served, upstream: ChatServer) -> None:
    assert ask(reviews, "a page").choices[0].message.content == "the answer"
    ask(reviews, '{"text": "it", "style": "long"}')
    assert called(upstream) == ["two", "two"]
    asked = [str(call.body["messages"]) for call in upstream.calls]
    assert ("A short review of a page" in asked[0], "A long review of it" in asked[1]) == (True, True)
    assert any(model.id.startswith("plan/review") for model in reviews.client().models.list())
    runs = reviews.http().get("/runs").json()["data"]
    questions = [run["question"].partition(") ")[0] for run in reversed(runs)]
    assert questions == ['review(text="a page", style="short"', 'review(text="it", style="long"']


@pytest.mark.anyio
async def test_a_saved_plan_is_a_tool(reviews: Served, upstream: ChatServer) -> None:
    async with connect(http_of(f"{reviews.root}/mcp")) as client:
        (tool,) = [each for each in (await client.session.list_tools()).tools if each.name == "plan_review"]
        assert (tool.description, tool.inputSchema["required"]) == ("Reviews a text.", ["text"])
        answer = await client.call("plan_review", text="it")
        assert answer["content"][0]["text"] == "the answer"
        wrong = await client.call("plan_review", text="it", style="odd")
        assert (wrong["isError"], "wrong value for style" in wrong["content"][0]["text"]) == (True, True)
    assert len(upstream.calls) == 1


def test_the_arguments_of_a_run_are_changed(reviews: Served, upstream: ChatServer) -> None:
    ask(reviews, '{"text": "it", "style": "long"}')
    client = reviews.http()
    path = f"/runs/{client.get('/runs').json()['data'][0]['id']}"
    plan = client.get(path).json()["rounds"][0]["plan"]
    assert plan["args"] == {"text": "it", "style": "long"}
    plan["args"]["style"] = "short"
    again = client.post(f"{path}/replay", json={"plan": plan})
    assert again.status_code == 202, again.text
    assert ended(client, again.json()["id"])["status"] == "ok"
    assert "A short review of it" in str(upstream.calls[-1].body["messages"])
    assert len(upstream.calls) == 2
