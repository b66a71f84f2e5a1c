"""Events of a run for LlamaIndex's instrumentation, in addition to the spans of its steps.

Handlers get them like any other event: `get_dispatcher().add_event_handler(…)`.
"""

from typing import Any

from llama_index.core.instrumentation.events import BaseEvent


class PlanReadyEvent(BaseEvent):
    """The plan of a round is complete and valid."""

    run_id: str
    round: int
    plan: dict[str, Any]
    """The plan as `Plan.to_json` writes it."""
    planner: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name for handlers."""
        return "PodiumPlanReadyEvent"


class StepEvent(BaseEvent):
    """An event of one step; its span is the span of the worker's call."""

    run_id: str
    round: int
    step: int
    """Index in the plan, from 0."""
    path: str = ""
    """The name of an execution inside of a map or a block, as in `2[17]`, whose `step` is from 10,000."""
    attempt: int
    """Number of the call for the step, from 1; 0 if the step never started."""
    worker: str

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name for handlers."""
        return "PodiumStepEvent"


class StepStartEvent(StepEvent):
    """A step's worker is called."""

    subtask: str

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name for handlers."""
        return "PodiumStepStartEvent"


class StepInProgressEvent(StepEvent):
    """A step's worker wrote a chunk of its output."""

    delta: str

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name for handlers."""
        return "PodiumStepInProgressEvent"


class StepEndEvent(StepEvent):
    """A step has ended, or will never run."""

    status: str
    """`ok`, `failed`, `skipped` or `cancelled`."""
    output: str
    problem: str | None
    """The reason if the status is not `ok`."""
    source_nodes: list[str]
    """Ids of the nodes that the step found."""
    usage: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name for handlers."""
        return "PodiumStepEndEvent"


class RunEndEvent(BaseEvent):
    """A run has ended; its span is the span in which the run was started."""

    run_id: str
    status: str
    """`ok`, `partial`, `failed` or `waiting`."""
    problem: str | None
    """The reason if the status is not `ok`."""
    usage: dict[str, Any]
    """Tokens of the planner and of all steps."""
    cost: float | None
    """In USD; `None` if a price is unknown."""
    seconds: float

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name for handlers."""
        return "PodiumRunEndEvent"
