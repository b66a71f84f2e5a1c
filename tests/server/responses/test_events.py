"""Any order of progress, text, calls and failures gives a valid sequence of events."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given, strategies as st

from podium.usage import Usage
from podium_server.api.responses.request import ResponseRequest
from podium_server.api.responses.writer import Event, Response, ResponseWriter
from podium_server.errors import Fault
from podium_server.turn import Piece, ProgressPiece, TextPiece

TERMINAL = ("response.completed", "response.incomplete", "response.failed")
STATES = ("response.created", "response.queued", "response.in_progress", *TERMINAL)
PIECES = st.builds(TextPiece, st.text(max_size=3)) | st.builds(ProgressPiece, st.text(max_size=3))
ENDS = st.sampled_from(["stop", "length", "fail", "cancel"])
BEGINNINGS = st.sampled_from(["queued", "in_progress"])


def check(events: Sequence[Event]) -> None:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert [event["type"] for event in events if event["type"] in TERMINAL] == [events[-1]["type"]]
    states = [event["type"].removeprefix("response.") for event in events if event["type"] in STATES]
    assert states[1:-1] in (["in_progress"], ["queued"], ["queued", "in_progress"])
    items: list[Any] = []
    of_item: list[Event] = []
    for event in events:
        if event["type"] not in STATES:
            of_item.append(event)
        if event["type"] == "response.output_item.done":
            check_item(of_item, len(items))
            items.append(event["item"])
            of_item.clear()
    assert of_item == []
    assert events[-1]["response"]["output"] == items
    assert len({item["id"] for item in items}) == len(items)


def check_item(events: Sequence[Event], index: int) -> None:
    """Check the events of one output item: it is added, its text follows in pieces, then the whole text."""
    added, *inner, done = events
    item = done["item"]
    assert added["type"] == "response.output_item.added"
    assert (added["item"]["id"], added["item"]["type"]) == (item["id"], item["type"])
    assert {event["output_index"] for event in events} == {index}
    assert {event["item_id"] for event in inner} == {item["id"]}
    deltas = "".join(event["delta"] for event in inner if event["type"].endswith(".delta"))
    kinds = [event["type"].removeprefix("response.") for event in inner if "delta" not in event]
    match item["type"]:
        case "reasoning":
            part = "reasoning_summary_part"
            assert kinds == [f"{part}.added", "reasoning_summary_text.done", f"{part}.done"]
            assert item["summary"] == [{"type": "summary_text", "text": deltas}]
        case "message":
            assert kinds == ["content_part.added", "output_text.done", "content_part.done"]
            assert item["content"][0]["text"] == deltas
        case "function_call":
            assert kinds == ["function_call_arguments.done"]
            assert item["arguments"] == inner[-1]["arguments"] == deltas
        case "custom_tool_call":
            assert kinds == ["custom_tool_call_input.done"]
            assert item["input"] == inner[-1]["input"] == deltas
        case kind:
            raise AssertionError(kind)


def ended(reason: str, calls: int) -> Any:
    function = {"name": "add", "arguments": "{}"}
    made = [{"id": f"c{n}", "type": "function", "function": function} for n in range(calls)]
    return SimpleNamespace(finish_reason=reason, tool_calls=made, usage=Usage(1, 1), summary={"run_id": "r"})


@given(st.lists(PIECES, max_size=8), ENDS, st.integers(0, 2), BEGINNINGS)
@example([], "cancel", 0, "queued")
@example([ProgressPiece("a"), TextPiece("b"), ProgressPiece("c")], "stop", 2, "in_progress")
def test_any_order_of_events(pieces: list[Piece], end: str, calls: int, begun: Any) -> None:
    request = ResponseRequest(model="m", input="x", background=True)
    begun_as: Any = {"run_id": "r", "model": "m-1", "created": 1, "keeps": True, "status": "in_progress"}
    writer = ResponseWriter(Response(request=request, **begun_as))
    events = writer.begin(begun)
    if begun == "queued" and pieces:
        events += writer.proceed()
    for piece in pieces:
        events += writer.piece(piece)
    fault = Fault(status=502, code="worker", message="no")
    ends = {"fail": lambda: writer.fail(fault), "cancel": lambda: writer.cancel(())}
    events += ends.get(end, lambda: writer.end(ended(end, calls)))()
    check(events)
    for kind, item_type, part in ((TextPiece, "message", "content"), (ProgressPiece, "reasoning", "summary")):
        shown = [item[part][0]["text"] for item in writer.response.output if item["type"] == item_type]
        assert "".join(shown) == "".join(piece.text for piece in pieces if isinstance(piece, kind))
