"""The pieces of texts that viewers of a run get."""

from anyio.streams.memory import MemoryObjectReceiveStream

from podium.types import PlanDelta, RunStarted, StepDelta
from podium_server.turn import LivePieces, Written

ROW = '{"worker": 0, "subtask": "Look.", "access": []}\n'


def delta(text: str) -> StepDelta:
    """Return a piece of the text of step 0."""
    return StepDelta(run_id="r", at=0.0, round=1, step=0, attempt=1, text=text)


def drained(stream: MemoryObjectReceiveStream[Written]) -> list[Written]:
    """Return all pieces that wait."""
    return [stream.receive_nowait() for _ in range(stream.statistics().current_buffer_used)]


def shown(pieces: list[Written]) -> str:
    """Return the text that a viewer has after some pieces."""
    text = ""
    for each in pieces:
        text = each.piece.text if each.is_whole else text + each.piece.text
    return text


def test_a_viewer_that_is_too_slow_gets_the_whole_text_later() -> None:
    """It has lost pieces in between; a fast viewer gets each piece once."""
    live = LivePieces()
    words = [f"{number} " for number in range(1501)]
    fast: list[Written] = []
    with live.publishing("r") as publish, live.of("r", int) as slow, live.of("r", int) as other:
        for word in words[:-1]:
            publish(delta(word))
            fast += drained(other)
        late = drained(slow)
        assert shown(late) == "".join(words[:1000])
        publish(delta(words[-1]))
        assert shown(late + drained(slow)) == "".join(words)
        fast += drained(other)
    assert shown(fast) == "".join(words)
    assert not any(each.is_whole for each in fast)


def test_the_steps_of_a_plan_that_is_written() -> None:
    """A viewer that comes later gets all complete steps, and then each further step once."""
    live = LivePieces()
    with live.publishing("r") as publish:
        publish(RunStarted(run_id="r", at=0.0, workers=("one",)))
        for text in (ROW, ROW[:20]):
            publish(PlanDelta(run_id="r", at=0.0, round=1, planner="p", text=text))
        with live.of("r", int) as viewer:
            (first,) = drained(viewer)
            assert (first.is_whole, [step.subtask for step in first.steps]) == (True, ["Look."])
            publish(PlanDelta(run_id="r", at=0.0, round=1, planner="p", text=ROW[20:]))
            (second,) = drained(viewer)
            assert (second.is_whole, len(second.steps)) == (False, 1)
