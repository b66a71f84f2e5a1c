"""Agents that speak the Agent Client Protocol: a real process, with the agent's side of the SDK."""

import sys
from pathlib import Path
from typing import Any

import pytest

from podium import Card, Message
from podium.errors import AgentFailed, AgentRejected, WorkerBroken
from podium.types import Completion
from podium.usage import Usage
from podium.workers import CommandWorker, Request, complete

pytestmark = [pytest.mark.anyio, pytest.mark.long]

AGENT = """
import asyncio, os, sys
import acp
from acp.schema import (
    AgentCapabilities, Cost, InitializeResponse, NewSessionResponse, PermissionOption, PromptResponse,
    ToolCallUpdate, Usage, UsageUpdate,
)

class Agent:
    def on_connect(self, client):
        self.client = client

    async def initialize(self, protocol_version, **_):
        print("not a message", flush=True)
        return InitializeResponse(protocol_version=protocol_version, agent_capabilities=AgentCapabilities())

    async def new_session(self, cwd, **_):
        if sys.argv[1] == "auth":
            raise acp.RequestError.auth_required()
        self.folder = cwd
        return NewSessionResponse(session_id="s")

    async def prompt(self, prompt, session_id, **_):
        if sys.argv[1] == "dies":
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(3)
        if sys.argv[1] == "refuses":
            return PromptResponse(stop_reason="refusal")
        say = lambda text: self.client.session_update(session_id, acp.update_agent_message_text(text))
        await say("I will write.")
        await self.client.session_update(session_id, acp.start_tool_call("t", "write a file"))
        options = [
            PermissionOption(option_id=kind, name=kind, kind=kind)
            for kind in ("allow_always", "allow_once", "reject_once")
        ]
        tool = ToolCallUpdate(tool_call_id="t", title="write a file")
        chosen = await self.client.request_permission(session_id=session_id, tool_call=tool, options=options)
        await say(f"{prompt[0].text} in {self.folder}: ")
        await say(chosen.outcome.option_id)
        cost = UsageUpdate(
            session_update="usage_update", used=10, size=100, cost=Cost(amount=0.25, currency="USD")
        )
        await self.client.session_update(session_id, cost)
        usage = Usage(total_tokens=130, input_tokens=50, output_tokens=20, cached_read_tokens=60)
        return PromptResponse(stop_reason="end_turn", usage=usage)

asyncio.run(acp.run_agent(Agent()))
"""


async def said(kind: str, folder: Path, *, acts: bool = True) -> Completion:
    command = [sys.executable, "-c", AGENT, kind]
    worker = CommandWorker(command, preset="acp", folder=folder, card=Card(name="agent"), acts=acts)
    return await complete(worker, Request(messages=(Message("user", "Write"),)))


@pytest.mark.parametrize(("acts", "chosen"), [(True, "allow_once"), (False, "reject_once")])
async def test_a_prompt_in_a_session(*, acts: bool, chosen: str, tmp_path: Path) -> None:
    """The answer is what it says after its last tool call; it may act if the worker may."""
    found = await said("works", tmp_path, acts=acts)
    assert (found.text, found.cost) == (f"Write in {tmp_path}: {chosen}", 0.25)
    assert found.usage == Usage(110, 20, 60)


@pytest.mark.parametrize(
    ("how", "kind", "told", "may_have_worked"),
    [
        ("auth", AgentRejected, "Authentication required", False),
        ("refuses", AgentFailed, "stopped: refusal", True),
        ("dies", WorkerBroken, "out of memory", True),
    ],
)
async def test_how_an_agent_fails(
    *, how: str, kind: Any, told: str, may_have_worked: Any, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=told) as raised:
        await said(how, tmp_path)
    assert raised.value.maybe_paid == may_have_worked
