"""Send a run's events as custom events of LangChain: `podium_plan_ready` and so on."""

from dataclasses import asdict
from typing import Any, Final, Protocol
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager, BaseCallbackHandler

from podium.types import Event, Result, RunEnded
from podium.usage import Usage

_SILENT: Final = (BaseCallbackHandler.on_custom_event, AsyncCallbackHandler.on_custom_event)


class ParentRun(Protocol):
    """A LangChain run that can have child runs, such as the run of a chain, a tool or a graph's node."""

    @property
    def run_id(self) -> UUID:
        """The run's id."""

    @property
    def handlers(self) -> list[BaseCallbackHandler]:
        """The callback handlers of the run."""

    def get_child(self, tag: str | None = None) -> Any:
        """Return the callback manager for child runs."""


def hears(run: ParentRun) -> bool:
    """Return whether a handler of the run accepts custom events."""
    return any(
        not handler.ignore_custom_event and type(handler).on_custom_event not in _SILENT
        for handler in run.handlers
    )


async def tell(run: ParentRun, event: Event) -> None:
    """Send a Podium event as a custom event of the run: `podium_step_ended`, with the event as JSON.

    `podium_run_ended` also has the totals of the run, see `totals`.
    """
    data = event.to_json()
    if isinstance(event, RunEnded):
        data |= totals(event.result)
    children: AsyncCallbackManager = run.get_child()
    await children.on_custom_event(f"podium_{event.type}", data, run_id=run.run_id)


def totals(result: Result) -> dict[str, Any]:
    """Return the totals of a run.

    Returns:
        `calls`, `usage`, `cost` in USD (`None` if it is unknown), and `maybe_paid`: whether `cost` includes
        calls that may not be billed, such as a call that timed out.
    """
    asked = [proposal for proposal in result.proposals if proposal.usage != Usage() or proposal.cost is None]
    calls = len(asked) + sum(outcome.attempts for outcome in result.outcomes)
    totals = {"calls": calls, "usage": asdict(result.usage), "cost": result.cost}
    return {**totals, "maybe_paid": result.maybe_paid}
