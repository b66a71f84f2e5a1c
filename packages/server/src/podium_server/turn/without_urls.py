"""Removes the addresses of upstream servers from messages for clients; the log and the journal keep them."""

import re
from urllib.parse import urlsplit

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]*[^\s'\"<>.,:;!?)\]}]", re.IGNORECASE)
_SERVER = "its server"


def without_urls(text: str) -> str:
    """Return a message without URLs and their hosts."""
    hosts = {_host(url) for url in _URL.findall(text)} - {""}
    text = _URL.sub(_SERVER, text)
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(:\d+)?(?![\w.-])", _SERVER, text, flags=re.IGNORECASE)
    return text


def _host(url: str) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
