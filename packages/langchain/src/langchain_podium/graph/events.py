"""Send a run's events to the stream of its graph."""

from collections.abc import Callable, Sequence

from langgraph.types import StreamWriter

from langchain_podium.events import totals
from podium.types import AnswerDelta, Event, Plan, PlanReady, RunEnded
from podium.types.events import PIECES


def stream_events(
    writer: StreamWriter,
    workers: Sequence[str],
    *,
    has_pieces: bool = False,
) -> Callable[[Event], None] | None:
    """Return a listener that sends a run's events to a graph's stream, as JSON: `podium_step_ended` etc.

    Args:
        writer: the stream's writer.
        workers: names of the pool's workers, for drawing plans.
        has_pieces: whether pieces of the texts of plans and steps are sent, too. The answer is a step's text.

    Returns:
        `None` if the events are not needed.
    """
    # A LangGraph writer without a closure discards its input: the stream was not requested.
    module, closure = getattr(writer, "__module__", ""), getattr(writer, "__closure__", ())
    if str(module).startswith("langgraph.") and closure is None:
        return None

    unsent = (AnswerDelta,) if has_pieces else PIECES

    def listen(event: Event) -> None:
        if isinstance(event, unsent):
            return
        data = event.to_json()
        if isinstance(event, PlanReady):
            data["mermaid"] = Plan.from_json(data["plan"]).to_mermaid(workers, event.actions)
        if isinstance(event, RunEnded):
            data |= totals(event.result)
        writer({"name": f"podium_{event.type}", "data": data})

    return listen
