"""Send a run's events as custom events of LangChain, and to the custom stream of LangGraph.

Their names are `podium_plan_ready` and so on.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.callbacks.manager import AsyncParentRunManager

from podium.types import AnswerDelta, Event, Plan, PlanReady, RunEnded
from podium.types.events import PIECES
from podium.usage import Usage

_SILENT: Final = (BaseCallbackHandler.on_custom_event, AsyncCallbackHandler.on_custom_event)


def hears(run: AsyncParentRunManager) -> bool:
    """Return whether a handler of the run accepts custom events."""
    return any(
        not handler.ignore_custom_event and type(handler).on_custom_event not in _SILENT
        for handler in run.handlers
    )


async def tell(run: AsyncParentRunManager, event: Event) -> None:
    """Send a Podium event as a custom event of the run."""
    await run.get_child().on_custom_event(f"podium_{event.type}", told(event), run_id=run.run_id)


def told(event: Event) -> dict[str, Any]:
    """Return an event as JSON; the end of a run has its totals.

    These are `calls`, `usage`, `cost` in USD (`None` if it is unknown), and `maybe_paid`: whether `cost`
    includes calls that may not be billed, such as a call that timed out.
    """
    data = event.to_json()
    if isinstance(event, RunEnded):
        result = event.result
        asked = [each for each in result.proposals if each.usage != Usage() or each.cost is None]
        data["calls"] = len(asked) + sum(outcome.attempts for outcome in result.outcomes)
        data |= {"usage": asdict(result.usage), "cost": result.cost, "maybe_paid": result.maybe_paid}
    return data


def stream_events(
    writer: Callable[[Any], None], workers: Sequence[str], *, has_pieces: bool
) -> Callable[[Event], None] | None:
    """Return a listener that sends a run's events to the custom stream of a graph; `None` if nobody reads it.

    Args:
        writer: the stream's writer.
        workers: names of the pool's workers, for drawing plans.
        has_pieces: whether pieces of the texts of plans and steps are sent, too. The answer is a step's text.
    """
    # A LangGraph writer without a closure discards its input: the stream was not requested.
    module, closure = getattr(writer, "__module__", ""), getattr(writer, "__closure__", ())
    if str(module).startswith("langgraph.") and closure is None:
        return None
    unsent = (AnswerDelta,) if has_pieces else PIECES

    def listen(event: Event) -> None:
        if not isinstance(event, unsent):
            data = told(event)
            if isinstance(event, PlanReady):
                data["mermaid"] = Plan.from_json(data["plan"]).to_mermaid(workers, event.actions)
            writer({"name": f"podium_{event.type}", "data": data})

    return listen
