"""Parts of a graph's state as named texts, which a plan passes to steps."""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from langchain_podium.graph.graph_node import State
from podium.errors import ConfigError


def named_texts(state: State, context: Mapping[str, str]) -> dict[str, str]:
    """Return the named texts of a run.

    A list becomes a text for each item, numbered from 1: `doc_1`, `doc_2`. An empty list becomes an empty
    text `doc`, so that a plan that refers to `doc_1` is refused. Messages and documents are converted to
    their text, other values to JSON.
    """
    texts: dict[str, str] = {}
    for name, key in context.items():
        value = state.get(key)
        if value is None:
            raise ConfigError(f"the state has no value under {key!r}, the text {name!r} of context: set it")
        if isinstance(value, list | tuple) and not value:
            texts[name] = ""
        elif isinstance(value, list | tuple):
            texts |= {f"{name}_{number}": _text(item, key) for number, item in enumerate(value, 1)}
        else:
            texts[name] = _text(value, key)
    return texts


def _text(value: Any, key: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Document):
        return value.page_content
    if isinstance(value, BaseMessage):
        return str(value.text)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        told = f"the state holds a {type(value).__name__} under {key!r}, which is not text"
        raise ConfigError(f"{told}: use text, documents, messages or JSON data") from error
