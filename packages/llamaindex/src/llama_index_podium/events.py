"""Events of LlamaIndex's instrumentation about runs, and events in the stream of a `ConductorWorkflow`.

Handlers get the first like any other event: `get_dispatcher().add_event_handler(…)`.
"""

from typing import Any, Literal

from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.workflow import Event, InputRequiredEvent


class RunEvent(BaseEvent):
    """An event of a run."""

    run_id: str

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name for handlers."""
        return f"Podium{cls.__name__}"


class PlanReadyEvent(RunEvent):
    """The plan of a round is complete and valid."""

    round: int
    plan: dict[str, Any]
    """The plan as `Plan.to_json` writes it."""
    planner: str
    why: str


class StepEvent(RunEvent):
    """An event of one step; its span is the span of the worker's call."""

    round: int
    step: int
    """Index in the plan, from 0."""
    path: str = ""
    """The name of an execution inside of a map or a block, as in `2[17]`, whose `step` is from 10,000."""
    attempt: int
    """Number of the call for the step, from 1; 0 if the step never started."""
    worker: str


class StepStartEvent(StepEvent):
    """A step's worker is called."""

    subtask: str


class StepInProgressEvent(StepEvent):
    """A step's worker wrote a chunk of its output."""

    delta: str


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


class RunEndEvent(RunEvent):
    """A run has ended; its span is the span in which the run was started."""

    status: str
    """`ok`, `partial`, `failed` or `waiting`."""
    problem: str | None
    """The reason if the status is not `ok`."""
    usage: dict[str, Any]
    """Tokens of the planner and of all steps."""
    cost: float | None
    """In USD; `None` if a price is unknown."""
    seconds: float


class PersonAskedEvent(InputRequiredEvent):
    """A person must decide; the answer is `HumanResponseEvent(response=…, name=event.name)`.

    The response to an approval is `yes`, or `no` and the reason. `name` may be missing if nothing else waits.
    """

    prefix: str
    """The text of the question: a plan, an action with its arguments, a fan-out, or a step's question."""
    run_id: str
    name: str
    """The name of the step that waits; `plan` for the plan."""
    kind: Literal["plan", "action", "fan_out", "question"]
    choices: list[str]
    """The possible answers to a question; empty for any text."""
    until: float | None
    """When the question is over, in seconds of Unix time; `None` for never."""


class ProgressEvent(Event):
    """A piece of the answer, or with `show_steps` a text about the plan and the steps."""

    delta: str = ""
    """The piece of the answer."""
    progress: str = ""
    """The text about the plan and the steps."""
