"""The event on CrewAI's bus for the end of a conductor's run."""

from typing import Any, Final, Literal

from crewai import Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.events.base_events import BaseEvent
from crewai.events.event_bus import crewai_event_bus
from crewai.events.event_listener import event_listener
from crewai.events.types.llm_events import LLMCallType, LLMStreamChunkEvent
from rich.text import Text

from podium.hosts import result_metadata
from podium.secrets import printable, scrub
from podium.types import Result

MAX_RESULTS: Final = 64
"""Maximum number of results that a manager or an LLM keeps."""


class ConductorRunEvent(BaseEvent):
    """A run of a `ConductorManager` or a `ConductorLLM` has ended."""

    type: Literal["conductor_run"] = "conductor_run"
    run_id: str
    status: str
    """`ok`, `partial` or `failed`; `waiting` for a plan that needs approval."""
    problem: dict[str, Any] | None
    """The reason if the status is not `ok`: `code` and `message`."""
    podium: dict[str, Any]
    """The plan, the steps, usage and cost, as `podium.hosts.result_metadata` returns them; without secrets.
    """


def tell_result(source: object, result: Result) -> None:
    """Send the event of a run."""
    facts = result_metadata(result)
    event = ConductorRunEvent(
        run_id=facts["run_id"], status=facts["status"], problem=facts["problem"], podium=facts
    )
    crewai_event_bus.emit(source, event)


def tell_piece(agent: BaseAgent, task: Task, text: str, call_id: str) -> None:
    """Send a piece of an answer as the chunk of an LLM, which is what CrewAI streams."""
    chunk = LLMStreamChunkEvent(
        chunk=printable(scrub(text)),
        call_type=LLMCallType.LLM_CALL,
        call_id=call_id,
        from_task=task,
        from_agent=agent,
    )
    crewai_event_bus.emit(agent, chunk)


def show(title: str, text: str) -> None:
    """Print a text without secrets and control characters, to the same console as CrewAI's agents."""
    event_listener.formatter.console.print(Text(printable(scrub(f"\n{title}:\n{text}\n"))))
