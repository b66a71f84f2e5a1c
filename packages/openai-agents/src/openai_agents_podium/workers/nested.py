"""Which step of a run an agent works for, as the conductor behind the agent has to know.

The SDK's runner stands between the step and the model of its agent. A context variable leads the
model to the step, so that its run is nested in the run of the step.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from podium.types import Completion, total_cost
from podium.usage import Usage
from podium.workers import Request


@dataclass(slots=True)
class OuterStep:
    """The step that the model of an agent works for."""

    model: object
    """The model: that of another agent, inside of it, works for no step."""
    request: Request
    answers: list[Completion] = field(default_factory=list)
    """The answers of the model, one for each turn of the agent."""

    def missing(self) -> str | None:
        """Return what the latest answer lacks; `None` when it is whole."""
        return self.answers[-1].missing if self.answers else None

    def cost(self, usage: Usage | None) -> float | None:
        """Return what the agent's step cost; `None` where the model has not used all of its tokens."""
        used = Usage.total(answer.usage for answer in self.answers)
        return total_cost(answer.cost for answer in self.answers) if self.answers and used == usage else None


_OUTER: ContextVar[OuterStep | None] = ContextVar("openai_agents_podium_outer", default=None)


@contextmanager
def working_for(model: object, request: Request) -> Iterator[OuterStep]:
    """Have a model work for a step in the block, and in all that is begun in it."""
    outer = OuterStep(model, request)
    token = _OUTER.set(outer)
    try:
        yield outer
    finally:
        _OUTER.reset(token)


def outer_step(model: object) -> OuterStep | None:
    """Return the step that a model works for; `None` where it answers on its own."""
    outer = _OUTER.get()
    return outer if outer is not None and outer.model is model else None
