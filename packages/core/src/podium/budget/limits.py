"""The limits of a run, and the amounts that count against them."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self, TypeGuard

from podium.errors import ConfigError
from podium.usage import Usage

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_COST = 1e9
"""The lowest cost or price, in USD, that is invalid."""


def is_cost(value: object) -> TypeGuard[float]:
    """Return whether `value` is a valid cost in USD: a number from 0 to below `MAX_COST`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_COST


@dataclass(frozen=True, slots=True)
class Spend:
    """The spending of one or more calls, actual or maximum."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    """In USD; `None` when unknown."""

    @classmethod
    def of(cls, usage: Usage, cost: float | None, *, calls: int = 1) -> Self:
        """Return the spending of a call, including a hosted conductor's own tokens."""
        read = usage.input_tokens + usage.orchestration_input_tokens
        return cls(calls, read, usage.output_tokens + usage.orchestration_output_tokens, cost)

    def times(self, number: int) -> Self:
        """Return the spending of several such calls."""
        cost = None if self.cost is None else self.cost * number
        tokens = self.input_tokens * number, self.output_tokens * number
        return replace(
            self, calls=self.calls * number, input_tokens=tokens[0], output_tokens=tokens[1], cost=cost
        )


NOTHING = Spend()


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a run may still spend. `None` means no limit."""

    steps: int | None = None
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In USD."""

    @property
    def rounded(self) -> "Remaining":
        """The amounts rounded down to one significant digit."""
        counts = {name: _rounded(getattr(self, name)) for name in ("steps", "calls", *_TOKENS)}
        money = _rounded(None if self.cost is None else round(self.cost * 1e9))
        return Remaining(**counts, cost=None if money is None else money / 1e9)


_TOKENS = ("input_tokens", "output_tokens")


def _rounded(count: int | None) -> int | None:
    digits = str(count)
    return None if count is None else int(digits[0].ljust(len(digits), "0"))


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
    """Maximum started steps of plans in the whole run, with all rounds and nested runs, without items and
    turns."""
    items: int = 256
    """Maximum items of one map: of a step with `each`."""
    turns: int = 20
    """Maximum turns of one loop: of a step with `until`."""
    calls: int = 1_000
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
    """Maximum calls of steps of one round at the same time."""
    seconds: float = 600.0
    """Time limit of the run. After a resume, the time starts from 0 again."""
    step_seconds: float = 300.0
    """Time limit of one step, also inside of an item or a turn, from its first slot, including all its
    attempts and the waits between them."""
    attempt_seconds: float = 120.0
    """Time limit of one call of a worker."""
    planner_seconds: float = 120.0
    """Time limit of one call of a planner."""
    output_chars: int = 400_000
    """Maximum length of the output of a step or an item, and of the list of a map where it is shown, in
    characters."""

    def keeping(self, begun: "Limits | None") -> "Limits":
        """Return the limits of a resumed run: those of the whole run are of `begun`, if they are recorded."""
        return self if begun is None else replace(self, **{name: getattr(begun, name) for name in OF_RUN})

    def allow_more_than(self, others: "Limits") -> bool:
        """Return whether a run with these limits may have longer answers than with others."""
        pairs = ((getattr(self, name), getattr(others, name)) for name in _OF_ANSWERS)
        return any(other is not None and (own is None or own > other) for own, other in pairs)

    def __post_init__(self) -> None:
        check_numbers(self, "limit ", may_be_0="unpriced")
        for name, value in (("cost", self.cost), ("unpriced", self.unpriced)):
            if value is not None and value >= MAX_COST:
                message = f"limit {name} is {value!r}: it must be below {MAX_COST:g} USD"
                raise ConfigError(f"{message}; leave it out for no limit")


def check_numbers(settings: "DataclassInstance", prefix: str, may_be_0: str = "") -> None:
    """Raise `ConfigError` if a number of some settings has another type, or is not above 0."""
    for each in fields(settings):
        value, is_whole = getattr(settings, each.name), each.type in (int, int | None)
        if not is_whole and each.type not in (float, float | None):
            continue
        if value is None and each.type in (int | None, float | None):
            continue
        is_number = isinstance(value, int if is_whole else int | float) and not isinstance(value, bool)
        if not is_number or not (value > 0 or (value == 0 and each.name == may_be_0)):
            least = "0 or more" if each.name == may_be_0 else "above 0"
            told = f"{least}, and a {'whole ' if is_whole else ''}number"
            raise ConfigError(f"{prefix}{each.name} is {value!r}: it must be {told}")


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
_OF_ANSWERS = ("cost", "answer_tokens", *_TOKENS)
