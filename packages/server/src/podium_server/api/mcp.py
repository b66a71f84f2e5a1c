"""Answers MCP clients: the tools `ask` and `list_models`.

The server has no sessions. A session only has an id, so that a client can cancel a call: it names the call
in a request of its own.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any
from uuid import uuid4

import anyio
from mcp.server.fastmcp import Context
from mcp.types import CallToolResult
from pydantic import Field
from starlette.requests import Request

from podium.mcp.server import new_server, tool_answer, tool_failure
from podium.types import Message
from podium_server.api.chat.response import usage_form
from podium_server.api.endpoint import told_fault
from podium_server.api.on_demand import part_of, read_message, tame_sdks
from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.turn import Asked, ProgressPiece, Turns

_SESSION = "mcp-session-id"
_CALLER = "podium.caller"
"""The key of the caller in the ASGI scope."""
_ANY_HOST = "0.0.0.0"  # noqa: S104 - the SDK then accepts requests to all hosts; it does not listen
_INSTRUCTIONS = (
    "Each model answers a question with a team: it writes a plan, and workers run the plan. `ask` asks a "
    "model; `list_models` lists the models."
)
_Context = Context[Any, Any, Request]
Question = Annotated[str, Field(description="The question, with all information that the answer needs.")]
Model = Annotated[
    str | None, Field(description="The model that answers, of `list_models`; by default the first.")
]


class McpApi:
    """`POST /mcp`: streamable HTTP without sessions."""

    def __init__(self, turns: Turns) -> None:
        tame_sdks()
        self._turns = turns
        acts = any(model.conductor.acts for model in turns.catalogue)
        self._server = new_server(
            "podium",
            [(self.ask, not acts), (self.list_models, True)],
            instructions=_INSTRUCTIONS,
            host=_ANY_HOST,
            stateless_http=True,
        )
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

    async def ask(self, question: Question, context: _Context, model: Model = None) -> CallToolResult:
        """Answer a question: a team of models plans and works on it."""
        try:
            caller, number = _caller(context), 0
            asked = Asked(model=self._turns.find(caller, model).name, messages=[Message("user", question)])
            async with self._turns.admitted(caller, asked) as turn:
                async with aclosing(turn.pieces()) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, ProgressPiece):
                            number += 1
                            await context.report_progress(number, None, piece.text.strip())
                facts = {
                    "answer": turn.answer.result.answer,
                    "model": turn.model.versioned_id,
                    "usage": usage_form(turn.usage),
                }
                return tool_answer(turn.summary | facts)
        except Exception as error:  # noqa: BLE001 - the outermost place; the client and the log get it
            fault = told_fault(error)
            return tool_failure(fault.code, fault.message, {"run_id": fault.run_id, **fault.more})

    async def list_models(self, context: _Context) -> CallToolResult:
        """List the models that can answer questions."""
        caller = _caller(context)
        models = [
            {"name": model.name, "description": model.description}
            for model in self._turns.catalogue
            if caller.may_call(model.name)
        ]
        told = "\n".join(f"{model['name']}: {model['description']}" for model in models)
        content = [{"type": "text", "text": told}]
        return CallToolResult.model_validate({"content": content, "structuredContent": {"models": models}})


def _caller(context: _Context) -> Caller:
    request = context.request_context.request
    assert request is not None
    caller: Caller = request.scope[_CALLER]
    return caller
