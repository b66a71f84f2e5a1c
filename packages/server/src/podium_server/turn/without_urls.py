"""Removes the addresses of upstream servers from messages for clients; the log and the journal keep them."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from podium.secrets import scrub, scrub_data
from podium.types import Action

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]*[^\s'\"<>.,:;!?)\]}]", re.IGNORECASE)
_SERVER = "its server"


def without_urls(text: str) -> str:
    """Return a message without URLs and their hosts."""
    hosts = {_host(url) for url in _URL.findall(text)} - {""}
    text = _URL.sub(_SERVER, text)
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(:\d+)?(?![\w.-])", _SERVER, text, flags=re.IGNORECASE)
    return text


def public_data(value: Any) -> Any:
    """Return JSON data without secrets, and with problems that name no upstream server.

    A problem is an object with the fields `code` and `message`.
    """
    text = json.dumps(value, ensure_ascii=False)
    is_clean = scrub(text) == text  # one pass over the whole text is cheaper than one for each string
    return _without_addresses(value if is_clean else scrub_data(value))


def actions_form(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Return the actions of a run as JSON data for clients, without secrets and addresses."""
    form: list[dict[str, Any]] = public_data([asdict(action) for action in actions])
    return [{**action, "output": without_urls(action["output"])} for action in form]


def _without_addresses(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_without_addresses(item) for item in value]
    if not isinstance(value, dict):
        return value
    clean = {key: _without_addresses(item) for key, item in value.items()}
    if "code" in clean and isinstance(clean.get("message"), str):
        clean["message"] = without_urls(clean["message"])
    return clean


def _host(url: str) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
