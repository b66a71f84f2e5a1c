"""The agents of the models with the client of the A2A SDK, and with Podium as a client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from a2a import types
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.json_format import MessageToDict, ParseDict
from server.scene import happens, slowly, stalled
from servers.chat_server import ChatServer, whole
from servers.podium_server import Served

pytestmark = pytest.mark.anyio

ASKED = "Why is the sky blue?"


@asynccontextmanager
async def client_of(served: Served, model: str = "", *, streams: bool = True) -> AsyncGenerator[Any, None]:
    """Yield a client with a key of its own."""
    headers = {"Authorization": f"Bearer {served.key()}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        place = f"{served.root}/a2a/{model}" if model else served.root
        card = await A2ACardResolver(http, place).get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=http, streaming=streams)).create(card)


def message_of(text: str, *, now: bool = False, **more: Any) -> types.SendMessageRequest:
    """Return a request with a message; `now` returns before the end of the task."""
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": text}], **more}
    wire = {"message": message, "configuration": {"returnImmediately": now}}
    return ParseDict(wire, types.SendMessageRequest())


async def send(client: Any, text: str = ASKED, **more: Any) -> list[dict[str, Any]]:
    return [MessageToDict(event) async for event in client.send_message(message_of(text, **more))]


def answer_of(task: dict[str, Any]) -> str:
    return "".join(part["text"] for each in task.get("artifacts", []) for part in each["parts"])


async def test_a_stream(keyed: Served) -> None:
    async with client_of(keyed) as client:
        events = await send(client)
    told = "\n".join(
        part["text"]
        for event in events
        for part in event.get("statusUpdate", {}).get("status", {}).get("message", {}).get("parts", [])
    )
    assert "0. one: Collect facts." in told
    pieces = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    assert "".join(part["text"] for piece in pieces for part in piece["parts"]) == "the answer"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_conversation(keyed: Served, upstream: ChatServer) -> None:
    async with client_of(keyed, "podium", streams=False) as client:
        (first,) = await send(client, "My name is Ada.")
        before = len(upstream.calls)
        await send(client, "What is my name?", contextId=first["task"]["contextId"])
    prompt = str(upstream.calls[before].body["messages"])
    assert ("My name is Ada." in prompt, "What is my name?" in prompt) == (True, True)


async def test_two_clients_do_not_see_each_other(keyed: Served) -> None:
    async with client_of(keyed) as one, client_of(keyed) as two:
        task = (await send(one))[0]["task"]
        assert (await one.get_task(types.GetTaskRequest(id=task["id"]))).id == task["id"]
        assert len((await one.list_tasks(types.ListTasksRequest())).tasks) == 1
        assert not (await two.list_tasks(types.ListTasksRequest())).tasks
        for attempt in (
            lambda: two.get_task(types.GetTaskRequest(id=task["id"])),
            lambda: two.cancel_task(types.CancelTaskRequest(id=task["id"])),
            lambda: send(two, taskId=task["id"]),
            lambda: anext(aiter(two.subscribe(types.SubscribeToTaskRequest(id=task["id"])))),
        ):
            with pytest.raises(TaskNotFoundError):
                await attempt()


async def test_a_key_sees_its_models_only(keyed: Served) -> None:
    headers = {"Authorization": f"Bearer {keyed.key(models=('mini',))}"}
    async with httpx2.AsyncClient(base_url=keyed.root, headers=headers, timeout=60) as http:
        card = (await http.get("/.well-known/agent-card.json")).json()
        url = card["supportedInterfaces"][0]["url"]
        assert (card["name"], url) == ("mini", f"{keyed.root}/a2a/mini")
        assert (await http.get("/a2a/podium/.well-known/agent-card.json")).status_code == 404
        assert (await http.post("/a2a/podium", json={})).status_code == 404
    assert httpx2.get(f"{keyed.root}/.well-known/agent-card.json").status_code == 401


async def test_a_failed_run_and_a_refused_file(keyed: Served, upstream: ChatServer) -> None:
    upstream.reply = lambda _: whole({}, status=401)
    async with client_of(keyed, streams=False) as client:
        (event,) = await send(client)
        (refused,) = await send(client, parts=[{"url": "https://example.com/a.png"}])
    task, facts = event["task"], event["task"]["metadata"]["podium"]
    assert (task["status"]["state"], facts["code"]) == ("TASK_STATE_FAILED", "planner_refused")
    assert facts["run_id"]
    assert refused["task"]["status"]["state"] == "TASK_STATE_REJECTED"


async def test_a_task_that_is_cancelled(keyed: Served, upstream: ChatServer) -> None:
    upstream.reply = stalled
    async with client_of(keyed, streams=False) as client:
        (event,) = await send(client, now=True)
        assert await happens(lambda: len(upstream.calls) == 3)
        task = await client.cancel_task(types.CancelTaskRequest(id=event["task"]["id"]))
        assert MessageToDict(task)["status"]["state"] == "TASK_STATE_CANCELED"
    assert await happens(upstream.calls[2].hung_up.is_set)


async def test_a_task_goes_on_after_its_stream(keyed: Served, upstream: ChatServer) -> None:
    upstream.reply = slowly
    async with client_of(keyed) as client:
        async for event in client.send_message(message_of(ASKED)):
            first = MessageToDict(event)
            break
        for _ in range(100):
            task = MessageToDict(await client.get_task(types.GetTaskRequest(id=first["task"]["id"])))
            if task["status"]["state"] == "TASK_STATE_COMPLETED":
                break
            await anyio.sleep(0.05)
    assert answer_of(task) == "the answer"
