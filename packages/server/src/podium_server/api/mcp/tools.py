"""The tools `ask` and `list_models`."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated, Any

from pydantic import Field

from podium.mcp import ToolCall
from podium.types import Message
from podium_server.api.chat.response import usage_form
from podium_server.api.endpoint import told_fault
from podium_server.api.errors import Fault
from podium_server.api.incomplete import incomplete
from podium_server.keys import Caller
from podium_server.turn import Asked, ProgressPiece, Turn, Turns

CALLER = "podium.caller"
"""The key of the caller in the ASGI scope."""
Question = Annotated[str, Field(description="The question, with all information that the answer needs.")]
Model = Annotated[
    str | None, Field(description="The model that answers, of `list_models`; by default the first.")
]


class Tools:
    """The tools.

    Args:
        turns: makes the turns.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    @property
    def acts(self) -> bool:
        """Whether a model that `ask` may call acts."""
        return any(model.conductor.acts for model in self._turns.catalogue)

    async def ask(self, question: Question, context: Any, model: Model = None) -> Any:
        """Answer a question: a team of models plans and works on it."""
        call = ToolCall(context)
        caller = _caller(call)
        try:
            asked = Asked(model=self._turns.find(caller, model).name, messages=[Message("user", question)])
            async with self._turns.admitted(caller, asked) as turn:
                await _run(turn, call)
                return call.result(_answer(turn))
        except Exception as error:  # noqa: BLE001 - the outermost place; the client and the log get it
            return call.result(_failure(told_fault(error)))

    async def list_models(self, context: Any) -> Any:
        """List the models that can answer questions."""
        call = ToolCall(context)
        models = [
            {"name": model.name, "description": model.description}
            for model in self._turns.catalogue
            if _caller(call).may_call(model.name)
        ]
        told = "\n".join(f"{model['name']}: {model['description']}" for model in models)
        return call.result({"content": [_text(told)], "structuredContent": {"models": models}})


def _caller(call: ToolCall) -> Caller:
    caller = call.scope[CALLER]
    assert isinstance(caller, Caller)
    return caller


async def _run(turn: Turn, call: ToolCall) -> None:
    """Run a turn, and report its progress."""
    number = 0
    async with aclosing(turn.pieces()) as pieces:
        async for piece in pieces:
            if isinstance(piece, ProgressPiece):
                number += 1
                await call.report(number, piece.text.strip())


def _answer(turn: Turn) -> Mapping[str, Any]:
    """Return the answer; a second text says why it is incomplete."""
    content = [_text(turn.answer.result.answer)]
    if turn.problem is not None:
        content.append(_text(incomplete(turn.problem)))
    facts = {
        "answer": turn.answer.result.answer,
        "model": turn.model.versioned_id,
        "usage": usage_form(turn.usage),
    }
    structured = {**turn.summary, **facts}
    return {"content": content, "structuredContent": structured, "_meta": {"podium": turn.summary}}


def _failure(fault: Fault) -> Mapping[str, Any]:
    facts = {"code": fault.code, "message": fault.message, "run_id": fault.run_id, **fault.more}
    return {
        "content": [_text(f"{fault.code}: {fault.message}")],
        "structuredContent": facts,
        "isError": True,
    }


def _text(text: str) -> Mapping[str, str]:
    return {"type": "text", "text": text}
