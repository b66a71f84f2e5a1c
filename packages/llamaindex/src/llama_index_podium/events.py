"""What LlamaIndex's instrumentation is told of a run, besides the spans of its steps.

Handlers get them as any other event: `get_dispatcher().add_event_handler(…)`.
"""

from typing import Any

from llama_index.core.instrumentation.events import BaseEvent


class PlanReadyEvent(BaseEvent):
    """A round's plan is whole and valid."""

    run_id: str
    round: int
    plan: dict[str, Any]
    """As `Plan.to_json` writes it."""
    planner: str
    why: str

    @classmethod
    def class_name(cls) -> str:
        """Return what handlers call it."""
        return "PodiumPlanReadyEvent"


class StepEvent(BaseEvent):
    """Something that happened in one step; its span is the one of the worker's call."""

    run_id: str
    round: int
    step: int
    """Index in the plan, from 0."""
    attempt: int
    """Number of the call for the step, from 1; 0 of a step that never started."""
    worker: str

    @classmethod
    def class_name(cls) -> str:
        """Return what handlers call it."""
        return "PodiumStepEvent"


class StepStartEvent(StepEvent):
    """A step's worker is called."""

    subtask: str

    @classmethod
    def class_name(cls) -> str:
        """Return what handlers call it."""
        return "PodiumStepStartEvent"


class StepInProgressEvent(StepEvent):
    """A step's worker wrote a piece of its output."""

    delta: str

    @classmethod
    def class_name(cls) -> str:
        """Return what handlers call it."""
        return "PodiumStepInProgressEvent"


class StepEndEvent(StepEvent):
    """A step is over, or will never run."""

    status: str
    """`ok`, `failed`, `skipped` or `cancelled`."""
    output: str
    problem: str | None
    """Why it is not `ok`."""
    source_nodes: list[str]
    """Ids of the nodes it found."""
    usage: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """Return what handlers call it."""
        return "PodiumStepEndEvent"


class RunEndEvent(BaseEvent):
    """A run has ended; its span is the one that the run was started in."""

    run_id: str
    status: str
    """`ok`, `partial`, `failed` or `waiting`."""
    problem: str | None
    """Why it is not `ok`."""
    usage: dict[str, Any]
    """Tokens of the planner and of all steps."""
    cost: float | None
    """In USD; `None` where a price is unknown."""
    seconds: float

    @classmethod
    def class_name(cls) -> str:
        """Return what handlers call it."""
        return "PodiumRunEndEvent"
