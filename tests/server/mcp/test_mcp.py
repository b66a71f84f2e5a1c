"""`POST /mcp` with the client of the MCP SDK."""

import sys
from functools import partial
from typing import Any

import httpx2
import pytest
from anyio import create_task_group
from server.keys.test_http import budget
from server.scene import Serve, called, happens, stalled
from servers.chat_server import ChatServer
from servers.mcp_client import connect, http_of
from servers.podium_server import Served

from podium.types import RunStarted

pytestmark = pytest.mark.anyio

ASKED = "Why is the sky blue?"


def client_of(served: Served, key: str) -> Any:
    return connect(http_of(f"{served.root}/mcp", key))


async def test_a_question(keyed: Served) -> None:
    async with client_of(keyed, keyed.key()) as client:
        assert await client.tools() == ["ask", "plan", "run_plan", "list_models"]
        wire = await client.call("ask", question=ASKED)
        notes = "\n".join(message or "" for _, _, message in client.notes)
    assert wire["content"] == [{"type": "text", "text": "the answer"}]
    facts = wire["structuredContent"]
    assert (facts["status"], facts["usage"]["total_tokens"]) == ("ok", 3 * 218)
    assert facts["model"].startswith("podium-")
    assert "0. one: Collect facts." in notes
    assert "Step 0: ok" in notes
    assert keyed.app.journal is not None
    (row,) = await keyed.app.journal.runs(ids=[facts["run_id"]])
    assert row.question == ASKED


async def test_a_key_sees_and_calls_its_models_only(keyed: Served) -> None:
    key = keyed.key(models=("mini",))
    async with client_of(keyed, key) as client:
        listed = (await client.call("list_models"))["structuredContent"]["models"]
        assert [model["name"] for model in listed] == ["mini"]
        refused = await client.call("ask", question=ASKED, model="podium")
        assert (refused["isError"], refused["structuredContent"]["code"]) == (True, "model_not_found")
        answered = await client.call("ask", question=ASKED)
    assert answered["structuredContent"]["model"].startswith("mini-")


async def test_a_plan_that_is_changed_and_run(keyed: Served, upstream: ChatServer) -> None:
    key = keyed.key(day_cost=1.0)
    async with client_of(keyed, key) as client:
        planned = await client.call("plan", question=ASKED)
        assert "0. one: Collect facts." in planned["content"][0]["text"]
        assert called(upstream) == ["planner"]
        assert await happens(lambda: budget(keyed, key, "reserved") == 0)
        spent = budget(keyed, key)
        assert 0 < spent < 0.001
        plan = planned["structuredContent"]["plan"]
        plan["steps"][0]["subtask"] = "Collect all facts."
        answered = await client.call("run_plan", plan=plan, labels=["eu"])
    assert answered["content"] == [{"type": "text", "text": "the answer"}]
    assert len(upstream.calls) == 1 + len(plan["steps"])
    assert await happens(lambda: budget(keyed, key) > spent)
    assert keyed.app.journal is not None
    (row,) = await keyed.app.journal.runs(ids=[answered["structuredContent"]["run_id"]])
    assert row.question == ASKED
    started = (await keyed.app.journal.read(row.run_id))[0].event
    assert isinstance(started, RunStarted)
    assert started.labels == {"eu"}


async def test_a_call_that_is_cancelled(keyed: Served, upstream: ChatServer) -> None:
    """That of another session, which has the same number, goes on."""
    upstream.reply, key = stalled, keyed.key()
    async with client_of(keyed, key) as one, client_of(keyed, key) as other, create_task_group() as tasks:
        for number, client in ((3, one), (6, other)):
            tasks.start_soon(partial(client.call, "ask", question=ASKED))
            assert await happens(lambda number=number: len(upstream.calls) == number)
        assert one.session._request_id == other.session._request_id
        await one.cancel_latest()
        assert await happens(upstream.calls[2].hung_up.is_set)
        assert not upstream.calls[5].hung_up.is_set()
        tasks.cancel_scope.cancel()


def test_a_method_and_a_body_that_do_not_exist(keyed: Served) -> None:
    """They are refused before the SDK reads them."""
    headers = {"authorization": f"Bearer {keyed.key()}"}
    with httpx2.Client(base_url=keyed.root, headers=headers, timeout=60) as client:
        assert (client.get("/mcp").status_code, client.post("/mcp", content="x").status_code) == (405, 415)
        json = {"content-type": "application/json"}
        assert client.post("/mcp", headers=json, content="{").status_code in (400, 406)
        for path in ("/mcp", "/a2a/podium"):
            assert client.post(path, headers=json, content="[" * 100_000).status_code == 400


@pytest.mark.parametrize(("module", "path"), [("mcp", "/mcp"), ("a2a", "/a2a/podium")])
def test_without_the_extra(module: str, path: str, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    answer = httpx2.post(serve().root + path, json={})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (404, f"{module}_not_installed")
    assert f"server[{module}]" in error["message"]
