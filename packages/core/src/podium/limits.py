"""What a run may spend, and the ledger that holds it to that.

One ledger covers a whole run: its rounds, the runs nested in it, the planner's calls.
"""

from dataclasses import dataclass, field, fields, replace

from podium.errors import ConfigError, LimitExceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may spend."""

    plan_steps: int = 5
    """Steps of one plan; five, as in the paper."""
    rounds: int = 1
    """Plans carried out one after the other; 1 means no recursion."""
    depth: int = 2
    """How deep conductors may nest as workers; 1 means that none may."""
    steps: int = 32
    """Steps started in the whole run, over all rounds and nested runs."""
    concurrency: int = 16
    """Steps of one round that run at the same time."""
    seconds: float = 600.0
    """From acceptance to answer."""
    step_seconds: float = 120.0
    """One step, waiting for its worker's slot included."""
    planner_seconds: float = 120.0
    """One call of the planner."""
    output_chars: int = 400_000
    """Longest text one step may return, in characters."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            kinds, told = ((int,), "a whole number") if limit.type is int else ((int, float), "a number")
            if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
                raise ConfigError(f"limit {limit.name} is {value!r}: it must be above 0, and {told}")


@dataclass(slots=True)
class Ledger:
    """What one run, with all that is nested in it, has started."""

    limits: Limits
    deadline: float
    """When the run must have ended, on the event loop's clock, in seconds."""
    parent: "Ledger | None" = None
    """That of the run this one is nested in; what is booked here is booked there too."""
    steps: int = field(default=0, init=False)
    """Steps started so far."""

    def nested(self, limits: Limits, depth: int, deadline: float) -> "Ledger":
        """Return the ledger of a run nested `depth` deep in this one, which is held to both limits."""
        deepest = min(self.limits.depth, depth + limits.depth)
        return Ledger(replace(limits, depth=deepest), min(self.deadline, deadline), self)

    def start_step(self) -> None:
        """Book one step.

        Raises:
            LimitExceeded: the run has started as many as it may.
        """
        if self.steps >= self.limits.steps:
            raise LimitExceeded(
                "steps", f"the run has started its {self.limits.steps} steps: raise Limits.steps for more"
            )
        if self.parent is not None:
            self.parent.start_step()
        self.steps += 1
