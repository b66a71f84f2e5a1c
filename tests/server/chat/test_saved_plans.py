"""Saved plans as models and as tools of MCP."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.scene import Serve
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
    assert [call.body["model"] for call in upstream.calls] == ["two", "two"]
    for call, subtask in zip(
        upstream.calls, ("A short review of a page", "A long review of it"), strict=True
    ):
        assert subtask in str(call.body["messages"])
    models = {model.id.partition("-20")[0] for model in reviews.client().models.list()}
    assert any(name.startswith("plan/review") for name in models)
    runs = httpx2.get(f"{reviews.url}/runs").json()["data"]
    questions = [run["question"].partition(") ")[0] for run in reversed(runs)]
    assert questions == ['review(text="a page", style="short"', 'review(text="it", style="long"']


@pytest.mark.anyio
async def test_a_saved_plan_is_a_tool(reviews: Served, upstream: ChatServer) -> None:
    async with connect(http_of(f"{reviews.root}/mcp")) as client:
        (tool,) = [each for each in (await client.session.list_tools()).tools if each.name == "plan_review"]
        assert tool.description == "Reviews a text."
        assert tool.inputSchema["required"] == ["text"]
        answer = await client.call("plan_review", text="it")
        assert answer["content"][0]["text"] == "the answer"
        wrong = await client.call("plan_review", text="it", style="odd")
        assert wrong["isError"]
        assert "wrong value for style" in wrong["content"][0]["text"]
    assert len(upstream.calls) == 1


def test_the_arguments_of_a_run_are_changed(reviews: Served, upstream: ChatServer) -> None:
    ask(reviews, '{"text": "it", "style": "long"}')
    with httpx2.Client(base_url=reviews.url) as client:
        run_id = client.get("/runs").json()["data"][0]["id"]
        plan = client.get(f"/runs/{run_id}").json()["rounds"][0]["plan"]
        assert plan["args"] == {"text": "it", "style": "long"}
        plan["args"]["style"] = "short"
        again = client.post(f"/runs/{run_id}/replay", json={"plan": plan})
        assert again.status_code == 202, again.text
        assert "run_ended" in client.get(f"/runs/{again.json()['id']}/events").text
    assert "A short review of it" in str(upstream.calls[-1].body["messages"])
    assert len(upstream.calls) == 2
