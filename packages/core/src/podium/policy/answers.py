"""The labels of earlier answers, with which the texts of a conversation keep their labels."""

import json
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Final

from podium.types.messages import Part

LACK: Final = "(Not complete: "
"""The begin of the sentence that ends the text of an incomplete answer; see `podium.hosts.lack_of`."""


def answer_key(asker: str, text: str, tool_calls: Sequence[Part] = ()) -> str:
    """Return the hash by which the labels of an answer are found; empty for an empty answer.

    Args:
        asker: whose conversation it is.
        text: the text; differences of white space, and a sentence that says that it is incomplete, have no
            effect.
        tool_calls: the tool calls of an answer without text, of which the first counts.
    """
    *lines, last = text.rstrip().split("\n")
    told = "\n".join(lines) if last.startswith(LACK) and last.endswith(")") else text
    said = " ".join(told.split())
    if not said and tool_calls:
        said = json.dumps([tool_calls[0].get("id"), tool_calls[0].get("function", {}).get("name")])
    whole = f"{asker}\0{said}".encode("utf-8", "surrogatepass")
    return sha256(whole).hexdigest()[:32] if said else ""


class AnswerLabels:
    """The labels of the latest answers, in memory. It is thread-safe.

    Args:
        most: maximum number of answers. The oldest is removed first.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._kept: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._lock = Lock()

    def keep(self, key: str, labels: frozenset[str]) -> None:
        """Add labels to an answer."""
        with self._lock:
            self._kept[key] = self._kept.pop(key, labels) | labels
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def find(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of the answers that are known."""
        with self._lock:
            return {key: self._kept[key] for key in keys if key in self._kept}
