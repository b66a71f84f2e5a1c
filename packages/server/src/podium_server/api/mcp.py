"""Answers MCP clients with the tools of `podium.mcp.tools`.

The server has no sessions. A session only has an id, so that a client can cancel a call: it names the call
in a request of its own.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from uuid import uuid4

import anyio
from mcp.types import CallToolResult

from podium.conductor import Conductor
from podium.errors import RunWaiting
from podium.hosts.completions import usage_form
from podium.mcp.tools import Desk, ToolCall, ToolContext, new_server, tool_answer, tool_failure
from podium.types import Message, Plan
from podium.types.messages import read_query
from podium_server.api.endpoint import told_fault
from podium_server.api.on_demand import part_of, read_message, tame_sdks
from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.record import current_record
from podium_server.turn import Asked, ProgressPiece, Turns

_SESSION = "mcp-session-id"
_CALLER = "podium.caller"
"""The key of the caller in the ASGI scope."""
_ANY_HOST = "0.0.0.0"  # noqa: S104 - the SDK then accepts requests to all hosts; it does not listen


class McpApi:
    """`POST /mcp`: streamable HTTP without sessions."""

    def __init__(self, turns: Turns) -> None:
        tame_sdks()
        self._server = new_server(_Models(turns), "podium", host=_ANY_HOST, stateless_http=True)
        self._app = self._server.streamable_http_app()
        self._running: dict[tuple[str, str | None, object], anyio.CancelScope] = {}
        """The running requests, by caller, session and id."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Run the server in the block."""
        async with self._server.session_manager.run():
            yield

    async def answer(self, exchange: Exchange, caller: Caller) -> None:
        """Let the SDK answer a request."""
        raw = await exchange.body()
        message = read_message(raw)
        session, method = exchange.header(_SESSION), message.get("method")
        if method == "notifications/cancelled" and session is not None:
            named = caller.caller_id, session, str(part_of(message, "params", "requestId"))
            if named in self._running:
                self._running[named].cancel()
        headers = {_SESSION: uuid4().hex} if method == "initialize" else {}
        place = caller.caller_id, session, str(message.get("id"))
        with anyio.CancelScope() as scope:
            self._running[place] = scope
            try:
                await exchange.forward(self._app, raw, {_CALLER: caller}, headers=headers)
            finally:
                if self._running.get(place) is scope:
                    del self._running[place]
        if scope.cancelled_caught:
            await exchange.end()


class _Models(Desk):
    """The models of the server, within the rights and the budget of the caller's key."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.acts = any(model.conductor.acts for model in turns.catalogue)

    def models(self, context: ToolContext) -> Mapping[str, str]:
        models = self._turns.catalogue
        return {model.name: model.description for model in models if _caller(context).may_call(model.name)}

    def find(self, context: ToolContext, name: str | None) -> tuple[str, Conductor]:
        model = self._turns.find(_caller(context), name)
        return model.name, model.conductor

    async def plan(self, call: ToolCall) -> Plan:
        """Let a run wait for the approval of its plan, and forget it."""
        asked = Asked(
            model=call.model,
            messages=[Message("user", call.question)],
            labels=call.labels,
            is_recorded=False,
            only_plans=True,
        )
        async with self._turns.admitted(_caller(call.context), asked) as turn:
            with suppress(RunWaiting):
                await turn.run()
            planned = current_record().result
            assert planned is not None  # else the turn has raised
            return replace(planned.plans[-1], query=read_query(call.question))

    async def run(self, call: ToolCall, plan: Plan | None) -> CallToolResult:
        number = 0
        query = [Message("user", call.question)] if plan is None else plan.query
        asked = Asked(model=call.model, messages=query, plan=plan, labels=call.labels)
        async with self._turns.admitted(_caller(call.context), asked) as turn:
            async with aclosing(turn.pieces()) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ProgressPiece):
                        number += 1
                        await call.context.report_progress(number, None, piece.text.strip())
            facts = {
                "answer": turn.answered.answer.result.answer,
                "model": turn.model.versioned_id,
                "usage": usage_form(turn.answered.usage),
            }
            return tool_answer(turn.answered.summary | facts)

    def failure(self, error: Exception) -> CallToolResult:
        fault = told_fault(error)
        return tool_failure(fault.code, fault.message, {"run_id": fault.run_id, **fault.more})


def _caller(context: ToolContext) -> Caller:
    request = context.request_context.request
    assert request is not None
    caller: Caller = request.scope[_CALLER]
    return caller
