"""Sends a conversation unchanged to a worker that answers as itself."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from podium.types import Completion, Message
from podium.workers import CallMiddleware, Request, Worker


def verbatim(messages: Sequence[Message]) -> CallMiddleware:
    """Return a middleware that calls the worker with these messages, in place of a prompt with a subtask."""

    def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        return worker.call(replace(request, messages=tuple(messages), step_input=None))

    return middleware


def has_attachments(messages: Sequence[Message]) -> bool:
    """Return whether a message has a part that is not text, such as an image."""
    parts = (part for message in messages if not isinstance(message.content, str) for part in message.content)
    return any(part.get("type") != "text" for part in parts)
