"""Tell the conductor behind an agent which step of the outer run the agent works for.

The SDK's runner is between the step and the agent's model. A context variable passes the step to the model,
so that the model's run is nested in the step's run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from podium.types import Completion
from podium.types.outcome import total_cost
from podium.usage import Usage
from podium.workers import Request


@dataclass(slots=True)
class OuterStep:
    """The step that the model of an agent works for."""

    model: object
    """The agent's model. The model of another agent inside it works for no step."""
    request: Request
    answers: list[Completion] = field(default_factory=list)
    """The answers of the model, one for each turn of the agent."""

    def missing(self) -> str | None:
        """Return the missing parts of the latest answer, as text; `None` if it is complete."""
        return self.answers[-1].missing if self.answers else None

    def cost(self, usage: Usage | None) -> float | None:
        """Return the cost of the agent's step; `None` if the conductor did not use all of its tokens."""
        used = Usage.total(answer.usage for answer in self.answers)
        return total_cost(answer.cost for answer in self.answers) if self.answers and used == usage else None


_OUTER: ContextVar[OuterStep | None] = ContextVar("openai_agents_podium_outer", default=None)


@contextmanager
def working_for(model: object, request: Request) -> Iterator[OuterStep]:
    """Set the step that a model works for, in the block and in all tasks started in it."""
    outer = OuterStep(model, request)
    token = _OUTER.set(outer)
    try:
        yield outer
    finally:
        _OUTER.reset(token)


def outer_step(model: object) -> OuterStep | None:
    """Return the step that a model works for; `None` if it works for no step."""
    outer = _OUTER.get()
    return outer if outer is not None and outer.model is model else None
