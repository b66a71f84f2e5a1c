"""What Runnables give back, as the text that a worker's output is.

It knows no worker.
"""

import json
from typing import Any, TypeGuard

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from podium.types import Message


def text_of(value: object) -> str:
    """Return what a Runnable gave as text: a message's own, the last one's of many, else its JSON."""
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    if isinstance(value, list | tuple) and value and isinstance(value[-1], BaseMessage):
        value = value[-1]
    if isinstance(value, BaseMessage):
        return str(value.text)
    if _are_documents(value):
        return cited(value)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(_plain(value), ensure_ascii=False, default=_plain)


def cited(documents: list[Document]) -> str:
    """Return the documents' texts, each under the name of its source where that is known."""
    return "\n\n".join(map(_cited, documents))


def prompt_of(messages: tuple[Message, ...]) -> str:
    """Return what a worker is sent as one text, for one that takes no messages."""
    if len(messages) == 1:
        return messages[0].text
    return "\n\n".join(f"{message.role}: {message.text}" for message in messages)


def _are_documents(value: object) -> TypeGuard[list[Document]]:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Document) for each in value)


def _cited(document: Document) -> str:
    facts = document.metadata
    source = next((str(facts[key]) for key in ("source", "url", "title") if facts.get(key)), document.id)
    if not source:
        return document.page_content
    page = f", page {facts['page']}" if "page" in facts else ""
    return f"[{source}{page}]\n{document.page_content}"


def _plain(value: object) -> Any:
    if isinstance(value, BaseMessage):
        return str(value.text)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value if isinstance(value, dict | list | tuple | int | float | bool) else str(value)
