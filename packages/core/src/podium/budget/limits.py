"""What a run may spend."""

from dataclasses import dataclass, fields, replace

from podium.budget.spend import MAX_COST
from podium.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may spend."""

    plan_steps: int = 32
    """Steps of one plan; a longer one is refused before it runs. Planners are asked for fewer: see
    `PlanRequest.asked_steps`."""
    rounds: int = 1
    """Rounds: the first plan, and those that improve its answer. With 1 no answer is improved."""
    replans: int = 1
    """Further plans after a step has failed, with `on_failure="replan"`; they do not count as `rounds`."""
    depth: int = 2
    """How deep conductors may nest as workers; 1 means that none may."""
    steps: int = 32
    """Steps started in the whole run, over all rounds and nested runs."""
    calls: int = 128
    """Calls of workers and planners in the whole run, retries included."""
    input_tokens: int | None = None
    """Tokens read by all calls of the run; `None` sets no limit, as below."""
    output_tokens: int | None = None
    """Tokens written by all calls of the run."""
    cost: float | None = None
    """USD for all calls of the run."""
    unpriced: float | None = None
    """USD a call of unknown price counts as under `cost`; `None` refuses to run workers of unknown price."""
    answer_tokens: int = 4096
    """Most tokens of one answer that no one else bounds, where a token or cost limit is set."""
    concurrency: int = 16
    """Steps of one round that run at the same time."""
    seconds: float = 600.0
    """From acceptance to answer."""
    step_seconds: float = 300.0
    """One step, with all its attempts and the waits between them."""
    attempt_seconds: float = 120.0
    """One call of a worker."""
    planner_seconds: float = 120.0
    """One call of the planner."""
    output_chars: int = 400_000
    """Longest text one step may return, in characters."""

    def keeping(self, begun: "Limits | None") -> "Limits":
        """Return these limits with those of a whole run replaced by the ones that the run was begun with.

        Limits of one plan, step or call stay as they are.

        Args:
            begun: the limits that the run was begun with; `None` where they are not recorded.
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
"""The limits of a whole run, which hold for it when it is resumed, too."""
_USD = ("cost", "unpriced")
_MAY_BE_0 = "unpriced"


def _is_enough(name: str, value: float) -> bool:
    return value >= 0 if name == _MAY_BE_0 else value > 0
