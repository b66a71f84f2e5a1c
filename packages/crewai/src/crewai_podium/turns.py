"""The conversations an agent has with its LLM, as queries; and what a turn after a tool goes on from.

An agent asks its LLM again after every tool it has run. That turn finds the plan of the one
before, and all that its steps came to, so that only the last step's worker is called again.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from podium.errors import ConfigError
from podium.resume import PaidResults, unbilled
from podium.types import Event, Message, read_conversation

_MOST_KEPT: Final = 64
_GO_ON: Final = "Go on from there."


def query_of(messages: str | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what an LLM is sent as a query.

    What CrewAI says to the model after a tool has run, as the user, belongs to what the tool
    returned: it is no new question. After an assistant's text, on which an agent without native
    tools goes on, the user asks for that.
    """
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    found: list[Mapping[str, Any]] = []
    for message in messages:
        last = found[-1] if found else {}
        if message["role"] == "user" and last.get("role") == "tool":
            found[-1] = {**last, "content": f"{last['content']}\n\n{message['content']}"}
        else:
            found.append({key: value for key, value in message.items() if value is not None})
    if found and found[-1]["role"] == "assistant":
        found.append({"role": "user", "content": _GO_ON})
    return found


class Turns:
    """What the latest turns that ended with calls of tools came to, by their question."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Event, ...]] = OrderedDict()
        self._lock = Lock()

    def keep(self, query: Sequence[Mapping[str, Any]], events: Sequence[Event]) -> None:
        """Keep what a turn came to."""
        with self._lock:
            self._kept[_hash(query)] = tuple(events)
            self._kept.move_to_end(_hash(query))
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)

    def paid_results(self, query: Sequence[Mapping[str, Any]], workers: Sequence[str]) -> PaidResults:
        """Return what a turn goes on from: of a question that is new, nothing."""
        with self._lock:
            events = self._kept.get(_hash(query), ())
        _, turns = read_conversation(query)
        try:
            return unbilled(events, workers) if events and turns else PaidResults()
        except ConfigError:
            return PaidResults()  # the pool has others by now: the turn is planned anew


def _hash(query: Sequence[Mapping[str, Any]]) -> str:
    asked: tuple[Message, ...] = read_conversation(query)[0]
    text = json.dumps([message.to_wire() for message in asked], sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
