"""The limits of a run."""

from dataclasses import dataclass, fields, replace

from podium.budget.spend import MAX_COST
from podium.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a run."""

    plan_steps: int = 32
    """Maximum steps of one plan; a longer plan is invalid. Planners are asked for fewer steps: see
    `PlanRequest.asked_steps`."""
    rounds: int = 1
    """Maximum rounds: the first plan, and the plans that improve its answer. 1 means no improvement."""
    replans: int = 1
    """Maximum further plans after a failed step with `on_failure="replan"`; they do not count as `rounds`."""
    depth: int = 2
    """Maximum nesting depth of conductors as workers; 1 means no nesting."""
    steps: int = 32
    """Maximum started steps of the whole run, including all rounds and nested runs."""
    calls: int = 128
    """Maximum calls of workers and planners in the whole run, including retries."""
    input_tokens: int | None = None
    """Maximum tokens read by all calls of the run; `None` means no limit."""
    output_tokens: int | None = None
    """Maximum tokens written by all calls of the run; `None` means no limit."""
    cost: float | None = None
    """Maximum cost of all calls of the run, in USD; `None` means no limit."""
    unpriced: float | None = None
    """Cost in USD that Podium assumes for a call of unknown price, if `cost` is set.

    With `None`, a worker of unknown price is an error if `cost` is set.
    """
    answer_tokens: int = 4096
    """Maximum tokens of an answer of a worker without its own limit, if tokens or cost are limited."""
    concurrency: int = 16
    """Maximum steps of one round that run at the same time."""
    seconds: float = 600.0
    """Time limit of the run. After a resume, the time starts from 0 again."""
    step_seconds: float = 300.0
    """Time limit of one step, including all its attempts and the waits between them."""
    attempt_seconds: float = 120.0
    """Time limit of one call of a worker."""
    planner_seconds: float = 120.0
    """Time limit of one call of a planner."""
    output_chars: int = 400_000
    """Maximum length of a step's output, in characters."""

    def keeping(self, begun: "Limits | None") -> "Limits":
        """Return the limits of a resumed run.

        The limits of the whole run are taken from `begun`. The limits of one plan, step or call are taken
        from this object.

        Args:
            begun: the limits with which the run began; `None` if they are not recorded.
        """
        return self if begun is None else replace(self, **{name: getattr(begun, name) for name in OF_RUN})

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is None and limit.default is None:
                continue
            whole = limit.type in (int, int | None)
            kinds, told = ((int,), "a whole number") if whole else ((int, float), "a number")
            if isinstance(value, bool) or not isinstance(value, kinds) or not _is_enough(limit.name, value):
                least = "0 or more" if limit.name == _MAY_BE_0 else "above 0"
                raise ConfigError(f"limit {limit.name} is {value!r}: it must be {least}, and {told}")
            if limit.name in _USD and value >= MAX_COST:
                message = f"limit {limit.name} is {value!r}: it must be below {MAX_COST:g} USD"
                raise ConfigError(f"{message}; leave it out for no limit")


OF_RUN = (
    "rounds",
    "replans",
    "depth",
    "steps",
    "calls",
    "input_tokens",
    "output_tokens",
    "cost",
    "unpriced",
    "seconds",
)
"""The limits of a whole run, which a resumed run keeps."""
_USD = ("cost", "unpriced")
_MAY_BE_0 = "unpriced"


def _is_enough(name: str, value: float) -> bool:
    return value >= 0 if name == _MAY_BE_0 else value > 0
