"""The calls of the caller's tools and their results, divided among the steps that made the calls."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from podium.types.messages import INSTRUCTING, Message, Part


def divided(
    messages: Iterable[Message], called: Collection[str]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages of the tool calls with the ids `called` and of their results, and the others.

    A message with calls of both kinds is divided.
    """
    own, others = list[Message](), list[Message]()
    for message in messages:
        if message.role == "tool":
            (own if message.tool_call_id in called else others).append(message)
            continue
        known = tuple(call for call in message.tool_calls if _id(call) in called)
        if known:
            own.append(replace(message, tool_calls=known))
        if left := tuple(call for call in message.tool_calls if _id(call) not in called):
            others.append(replace(message, tool_calls=left))
        elif not known:
            others.append(message)
    return tuple(own), tuple(others)


class Exchange:
    """The calls of the caller's tools in a conversation, and their results.

    Args:
        messages: the messages after the question.
        called: the ids of the calls that steps of the plan have made.
        before: the messages up to the question, whose calls have ids, too.
    """

    def __init__(
        self, messages: Sequence[Message] = (), called: Collection[str] = (), before: Sequence[Message] = ()
    ) -> None:
        others = divided(messages, called)[1]
        self.others = others if any(each.role == "tool" for each in others) else ()
        """The messages of the calls of which it is not known which step made them. The last step is shown
        them; they are from a plan that was lost."""
        self._calls = {_id(call): call for each in messages for call in each.tool_calls}
        """The calls as the caller tells them: a model's arguments may be no JSON, which servers refuse."""
        self._results: dict[str, Message] = {}
        self._notes: dict[str, list[Message]] = {}
        """By call: the instructions that follow its result."""
        self._ids = {*called, *(_id(call) for each in (*before, *messages) for call in each.tool_calls)}
        latest = list[str]()
        is_open = False
        for message in messages:
            if message.role == "tool":
                name = str(message.tool_call_id)
                latest = [*latest, name] if is_open else [name]
                self._results[name] = message
            elif message.role in INSTRUCTING:
                for name in latest:
                    self._notes.setdefault(name, []).append(message)
            is_open = message.role == "tool"

    def is_answered(self, calls: Iterable[Part]) -> bool:
        """Return whether the results of all calls are known."""
        return all(_id(call) in self._results for call in calls)

    def open(self, calls: Iterable[Part]) -> tuple[Part, ...]:
        """Return the calls without a result."""
        return tuple(call for call in calls if _id(call) not in self._results)

    def own(self, said: Iterable[Message]) -> tuple[Message, ...]:
        """Return the messages of a step: each message with calls, their results, and what follows these."""
        found = list[Message]()
        for message in said:
            names = [_id(call) for call in message.tool_calls]
            calls = tuple(self._calls.get(_id(call), call) for call in message.tool_calls)
            found += [
                replace(message, tool_calls=calls),
                *(self._results.get(name) or _gone(name) for name in names),
            ]
            notes = list[Message]()
            for note in (each for name in names for each in self._notes.get(name, ())):
                notes += [] if note in notes else [note]  # several calls may have the same
            found += notes
        return tuple(found)

    def labels(self, said: Iterable[Message]) -> frozenset[str]:
        """Return the labels that the caller has given to the results of a step's calls."""
        return frozenset[str]().union(*(each.labels or () for each in self.own(said)))

    def unique(self, calls: Iterable[Part], place: str, *, always: bool = False) -> tuple[Part, ...]:
        """Return calls with other ids where another call has the same, or always.

        Args:
            calls: the calls.
            place: names who made them.
            always: whether each call gets another id.
        """
        found = list[Part]()
        for number, call in enumerate(calls):
            name = _id(call)
            if always or not name or name in self._ids:
                name = sha256(f"{place}/{number}".encode()).hexdigest()[:_CHARS]
            self._ids.add(name)
            found.append(call if name == _id(call) else {**call, "id": name})
        return tuple(found)


_CHARS = 9
"""Length of new ids: Mistral accepts no other."""


def _id(call: Part) -> str:
    return str(call.get("id") or "")


def _gone(name: str) -> Message:
    return Message("tool", "(The result of this call is not in the conversation any more.)", (), name)
