"""Converts the messages of a request to chat messages."""

from collections.abc import Sequence
from typing import Literal

from podium.hosts import tool_call
from podium.types import Message, Part
from podium_server.api.messages.blocks import (
    Block,
    Content,
    System,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    content_of,
)
from podium_server.http import BadRequest


class Turn(Block):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Content


def read_turns(system: System | None, turns: Sequence[Turn]) -> list[Message]:
    """Return the conversation as chat messages.

    Raises:
        BadRequest: a block does not fit its role, or the last message is of the assistant.
    """
    if turns[-1].role == "assistant":
        told = "the last message is of the assistant: this server cannot continue it; end with a user message"
        raise BadRequest(told, code="prefill_unsupported", param="messages")
    messages = []
    if system:
        messages.append(Message("system", content_of([block.part() for block in system])))
    for number, turn in enumerate(turns):
        if turn.role == "assistant":
            messages += _of_assistant(turn, number)
        else:
            messages += _of_user(turn, number)
    return messages


def _of_assistant(turn: Turn, number: int) -> list[Message]:
    parts: list[Part] = []
    calls: list[Part] = []
    for block in turn.content:
        match block:
            case ThinkingBlock():
                continue
            case ToolUseBlock():
                calls.append(tool_call(block.id, block.name, block.input))
            case ToolResultBlock():
                raise _misplaced(block.type, turn.role, number)
            case _:
                parts.append(block.part())
    return [Message("assistant", content_of(parts), tuple(calls))] if parts or calls else []


def _of_user(turn: Turn, number: int) -> list[Message]:
    """Return the messages of a user's or a system turn.

    Other blocks beside tool results, such as reminders of Claude Code, become part of the last result. As a
    message of the user they would be a new question, for which the planner would write a new plan.
    """
    results: list[tuple[str, list[Part]]] = []
    parts: list[Part] = []
    for block in turn.content:
        match block:
            case ThinkingBlock() | ToolUseBlock():
                raise _misplaced(block.type, turn.role, number)
            case ToolResultBlock():
                results.append((block.tool_use_id, block.parts()))
            case _:
                parts.append(block.part())
    if not results:
        return [Message("system" if turn.role == "system" else "user", content_of(parts))]
    results[-1][1].extend(parts)
    return [Message("tool", content_of(told), tool_call_id=call_id) for call_id, told in results]


def _misplaced(kind: str, role: str, number: int) -> BadRequest:
    told = f"messages[{number}]: a message of the {role} cannot have a block of the type {kind!r}"
    return BadRequest(told, param=f"messages[{number}]")
