"""`POST /mcp` with the client of the MCP SDK."""

import sys
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from server.mcp.stalls import acquired, hung_up, stalls
from server.scene import Serve
from servers.chat_server import ChatServer
from servers.mcp_client import connect, http_of
from servers.podium_server import Served

from podium.types import RunStarted

pytestmark = pytest.mark.anyio

ASKED = "Why is the sky blue?"


async def ask(served: Served, key: str = "", **arguments: Any) -> dict[str, Any]:
    """Call `ask` in a session of its own."""
    async with connect(http_of(f"{served.root}/mcp", key)) as client:
        return await client.call("ask", **{"question": ASKED, **arguments})


async def budget(served: Served, key: str) -> tuple[float, float]:
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}) as client:
        for _ in range(250):
            (period,) = (await client.get(f"{served.root}/v1/keys/self")).json()["budgets"]
            if not period["reserved"]:
                break
            await anyio.sleep(0.02)
    return period["spent"], period["reserved"]


def session_of(served: Served, key: str) -> dict[str, str]:
    headers = {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = httpx2.post(f"{served.root}/mcp", headers=headers, json=body, timeout=60)
    assert answer.status_code == 200
    return {**headers, "mcp-session-id": answer.headers["mcp-session-id"]}


async def send(
    served: Served, headers: dict[str, str], method: str, params: Any, number: int | None = 7
) -> None:
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    async with httpx2.AsyncClient(timeout=20) as client:
        numbered = body if number is None else {**body, "id": number}
        await client.post(f"{served.root}/mcp", headers=headers, json=numbered)


async def test_a_question(keyed: Served) -> None:
    async with connect(http_of(f"{keyed.root}/mcp", keyed.key())) as client:
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
    async with connect(http_of(f"{keyed.root}/mcp", key)) as client:
        listed = (await client.call("list_models"))["structuredContent"]["models"]
        assert [model["name"] for model in listed] == ["mini"]
        refused = await client.call("ask", question=ASKED, model="podium")
        assert refused["isError"]
        assert refused["structuredContent"]["code"] == "model_not_found"
        answered = await client.call("ask", question=ASKED)
    assert answered["structuredContent"]["model"].startswith("mini-")


async def test_a_plan_that_is_changed_and_run(keyed: Served, upstream: ChatServer) -> None:
    key = keyed.key(day_cost=1.0)
    async with connect(http_of(f"{keyed.root}/mcp", key)) as client:
        planned = await client.call("plan", question=ASKED)
        assert "0. one: Collect facts." in planned["content"][0]["text"]
        (call,) = upstream.calls
        assert call.body["model"] == "planner"
        spent, reserved = await budget(keyed, key)
        assert 0 < spent < 0.001
        assert reserved == 0
        plan = planned["structuredContent"]["plan"]
        plan["steps"][0]["subtask"] = "Collect all facts."
        answered = await client.call("run_plan", plan=plan, labels=["eu"])
    assert answered["content"] == [{"type": "text", "text": "the answer"}]
    assert len(upstream.calls) == 1 + len(plan["steps"])
    assert (await budget(keyed, key))[0] > spent
    assert keyed.app.journal is not None
    (row,) = await keyed.app.journal.runs(ids=[answered["structuredContent"]["run_id"]])
    assert row.question == ASKED
    started = (await keyed.app.journal.read(row.run_id))[0].event
    assert isinstance(started, RunStarted)
    assert started.labels == {"eu"}


async def test_a_call_that_is_cancelled(keyed: Served, upstream: ChatServer) -> None:
    began = stalls(upstream)
    sessions = [session_of(keyed, key) for key in [keyed.key()] * 2]
    tool = {"name": "ask", "arguments": {"question": ASKED}}
    async with anyio.create_task_group() as tasks:
        for headers in sessions:
            tasks.start_soon(send, keyed, headers, "tools/call", tool)
            await acquired(began)
        await send(keyed, sessions[0], "notifications/cancelled", {"requestId": 7}, number=None)
        await hung_up(upstream.calls[0])
        assert not upstream.calls[1].hung_up.is_set()
        tasks.cancel_scope.cancel()


def test_a_method_and_a_body_that_do_not_exist(keyed: Served) -> None:
    """They are refused before the SDK reads them."""
    headers = {"authorization": f"Bearer {keyed.key()}"}
    assert httpx2.get(f"{keyed.root}/mcp", headers=headers).status_code == 405
    plain = httpx2.post(f"{keyed.root}/mcp", headers=headers, content="x", timeout=60)
    assert plain.status_code == 415
    broken = httpx2.post(
        f"{keyed.root}/mcp", headers={**headers, "content-type": "application/json"}, content="{"
    )
    assert broken.status_code in (400, 406)
    json = {**headers, "content-type": "application/json"}
    for path in ("/mcp", "/a2a/podium"):
        assert (
            httpx2.post(keyed.root + path, headers=json, content="[" * 100_000, timeout=60).status_code == 400
        )


@pytest.mark.parametrize(("module", "path"), [("mcp", "/mcp"), ("a2a", "/a2a/podium")])
def test_without_the_extra(module: str, path: str, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    answer = httpx2.post(serve().root + path, json={})
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == f"{module}_not_installed"
    assert f"server[{module}]" in error["message"]
