"""What a step returns beside its text: documents, artifacts, and updates of the state of the graph around it.

All of it is in the outcome of the step as JSON data, so that a resumed run has it, too. Updates are applied
when the conductor's node ends.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage, message_to_dict, messages_from_dict
from pydantic_core import PydanticSerializationError, to_jsonable_python

from langchain_podium.graph.around import around
from langchain_podium.messages import content_completion
from podium.types import Completion, Outcome
from podium.types.messages import storable

_MESSAGE: Final = "__message__"
_DOCUMENT: Final = "__document__"
"""The keys of messages and documents in the JSON of an update."""


def is_command(returned: object) -> bool:
    """Return whether a value is a `Command`, or a list with one."""
    types = sys.modules.get("langgraph.types")  # code that makes one has imported it
    if types is None:
        return False
    items = returned if isinstance(returned, list) else [returned]
    return any(isinstance(item, types.Command) for item in items)


def command_completion(returned: Any, worker: str, call_id: str | None = None) -> Completion:
    """Return the answer of a step that returned commands, whose updates are in its data.

    The messages for the tool call are the text. Without any, the text is the last message of the update, or
    else the update as JSON.
    """
    from langgraph.errors import ParentCommand  # noqa: PLC0415 - the caller's code has imported it

    said, updates, gaps = list[ToolMessage](), list[list[Any]](), list[str]()
    for item in returned if isinstance(returned, list) else [returned]:
        if isinstance(item, BaseMessage):
            said += [item] if isinstance(item, ToolMessage) else []
            continue
        if item.graph is not None:
            raise ParentCommand(item)
        if item.goto:
            gaps.append("the goto of its Command, which a step cannot follow: use graph=Command.PARENT")
        for key, given in item._update_as_tuples():  # noqa: SLF001 - it reads all forms of an update
            answers, value = _answers(given, call_id)
            said += answers
            if answers and not value:
                continue
            if why := _why_not(key, value):
                gaps.append(f"the update of {key!r}: {why}")
            else:
                updates.append([key, encoded(value)])
    text = content_completion([str(each.text) for each in said], None, worker).text if said else None
    if text is None:
        text = _text({key: decoded(value) for key, value in updates})
    data = {"update": {"id": call_id or uuid4().hex, "values": updates}} if updates else None
    missing = f"not kept: {'; '.join(gaps)}" if gaps else None
    return Completion(storable(text), missing=missing, data=data)


def _answers(value: Any, call_id: str | None) -> tuple[list[ToolMessage], Any]:
    """Split a value into the messages for a tool call, and the rest."""
    if call_id is None or not isinstance(value, list):
        return [], value
    own = [each for each in value if isinstance(each, ToolMessage) and each.tool_call_id == call_id]
    return own, [each for each in value if each not in own]


def _why_not(key: str, value: Any) -> str:
    """Return why an update cannot be kept; empty if it can."""
    graph = around()
    if graph is None or key not in graph.channels:
        return "no state around the run declares it"
    try:
        encoded(value)
    except (TypeError, ValueError) as error:
        return f"it has no JSON form ({error}): use JSON data, messages or documents"
    return ""


def _text(update: Mapping[str, Any]) -> str:
    messages = [each for value in update.values() for each in (value if isinstance(value, list) else [])]
    last = messages[-1] if messages else None
    if isinstance(last, BaseMessage) and last.text:
        return str(last.text)
    return json.dumps({key: encoded(value) for key, value in update.items()}, ensure_ascii=False)


def encoded(value: Any) -> Any:
    """Return a value of the state as JSON data; raise `TypeError` if it has no JSON form."""

    def plain(part: object) -> Any:
        if isinstance(part, BaseMessage):
            return {_MESSAGE: message_to_dict(part)}
        if isinstance(part, Document):
            return {_DOCUMENT: part.model_dump()}
        raise TypeError(f"{type(part).__name__} is not JSON data")

    return json.loads(json.dumps(value, default=plain))


def decoded(value: Any) -> Any:
    """Return the value that was encoded."""

    def read(part: dict[str, Any]) -> Any:
        if part.keys() == {_MESSAGE}:
            return messages_from_dict([part[_MESSAGE]])[0]
        return Document(**part[_DOCUMENT]) if part.keys() == {_DOCUMENT} else part

    return json.loads(json.dumps(value), object_hook=read)


def updates_of(outcomes: Iterable[Outcome]) -> list[tuple[str, Any]]:
    """Return the updates of the state by the steps of a run, each once, in the order of the outcomes."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for outcome in outcomes:
        for data in _flat(outcome.data):
            if (update := data.get("update")) is not None:
                found[update["id"]] = [(key, decoded(value)) for key, value in update["values"]]
    return [each for update in found.values() for each in update]


def _flat(data: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if data is not None:
        yield data
        for nested in data.get("nested", ()):
            yield from _flat(nested)


def documents_data(documents: Sequence[Document]) -> dict[str, Any] | None:
    """Return documents as the data of an outcome; `None` if there are none."""
    return {"documents": [_kept(document) for document in documents]} if documents else None


def artifact_data(artifact: object) -> dict[str, Any] | None:
    """Return the artifact of a tool as the data of an outcome; `None` if there is none."""
    if isinstance(artifact, list) and artifact and all(isinstance(each, Document) for each in artifact):
        return documents_data(artifact)
    return None if artifact is None else {"artifact": _kept(artifact)}


def _kept(value: object) -> Any:
    if isinstance(value, Document):
        value = {"id": value.id, "page_content": value.page_content, "metadata": value.metadata}
    fallback: Callable[[Any], Any] = _left_out
    try:
        return to_jsonable_python(value, fallback=fallback)
    except (PydanticSerializationError, ValueError) as error:
        return f"left out: {error}"


def _left_out(value: object) -> str:
    number = getattr(value, "item", None)  # of numpy, as scores often are
    return number() if callable(number) else f"left out: a {type(value).__name__} has no JSON form"
