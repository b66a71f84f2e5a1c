"""Watches the measures of a run, and says when it should stop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from podium.errors import ConfigError
from podium_train.guards.measures import StepMeasures


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """When a run of training is stopped.

    Raises:
        ConfigError: a setting is out of its range.
    """

    patience: int = 10
    """Number of steps in a row for which a rule must be broken."""
    warm_up: int = 5
    """Number of first steps whose mean is the reference for entropy, valid plans and length."""
    entropy: float = 0.5
    """Least entropy of the workers, relative to the reference, 0 to 1; 0 turns the rule off."""
    reference_entropy: float | None = None
    """Relative entropy of the workers of good plans, for example of the oracle's, 0 to 1; `None` takes the
    entropy of the first steps."""
    valid_plans: float = 0.5
    """Least share of valid plans, relative to the reference, 0 to 1; 0 turns the rule off."""
    length: float = 3.0
    """Largest mean length, relative to the reference, above 1."""
    cut: float = 0.5
    """Largest share of texts that are cut at the maximum length, 0 to 1; 1 turns the rule off."""
    unknown: float = 0.5
    """Largest share of texts without a reward, 0 to 1; 1 turns the rule off."""

    def __post_init__(self) -> None:
        for name in ("patience", "warm_up"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: it must be 1 or more")
        for name in ("entropy", "reference_entropy", "valid_plans", "cut", "unknown"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"{name} is {value!r}: it must be from 0 to 1")
        if not self.length > 1:
            raise ConfigError(f"length is {self.length!r}: it must be above 1")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about the measures of a step."""

    name: str
    is_broken: Callable[[StepMeasures, Mapping[str, float], GuardSettings], bool]
    """Takes the measures, the reference, which is the mean of the first steps, and the settings."""
    told: str
    """What happens, and what to do. `{}` stands for attributes of the measures."""
    at_once: bool = False
    """Whether one step is enough."""


def _entropy_is_low(now: StepMeasures, first: Mapping[str, float], rules: GuardSettings) -> bool:
    reference = first["entropy"] if rules.reference_entropy is None else rules.reference_entropy
    return now.valid_plans > 0 and entropy_of(now) < rules.entropy * reference


def entropy_of(measures: StepMeasures) -> float:
    """Return the lower of the two entropies: a conductor collapses onto a worker, or onto a place."""
    return min(measures.worker_entropy, measures.number_entropy)


PLANS_ARE_LEARNT = (
    "Lower the learning rate, or start from a conductor that was trained on plans (`podium-train sft`)"
)
RULES = (
    Rule(
        "loss",
        lambda now, _first, _rules: now.loss is not None and not isfinite(now.loss),
        "the loss is {loss}, which is not a finite number: start again from the best checkpoint with a lower "
        "learning rate",
        at_once=True,
    ),
    Rule(
        "collapse",
        _entropy_is_low,
        "the plans use nearly always the same worker: the entropy is {worker_entropy:.2f} by worker and "
        "{number_entropy:.2f} by number, and {most_used} has {most_used_share:.0%} of the steps of its "
        "pools. Lower the learning rate, enlarge the groups, or draw the pools with more different workers",
    ),
    Rule(
        "valid_plans",
        lambda now, first, rules: (
            rules.valid_plans > 0
            and (not now.valid_plans or now.valid_plans < rules.valid_plans * first["valid_plans"])
        ),
        f"only {{valid_plans:.0%}} of the texts have a valid plan. {PLANS_ARE_LEARNT}",
    ),
    Rule(
        "no_variance",
        lambda now, _first, _rules: now.groups_without_variance >= 1,
        "all texts of each group have the same reward (mean {reward:.2f}), so nothing is learnt: take "
        "questions of medium difficulty, raise the temperature, or enlarge the groups",
    ),
    Rule(
        "length",
        lambda now, first, rules: now.length > rules.length * first["length"] or now.cut > rules.cut,
        "the texts grow: {length:.0f} tokens in the mean, and {cut:.0%} are cut at the maximum length. "
        "Lower the learning rate, or allow longer texts",
    ),
    Rule(
        "unknown",
        lambda now, _first, rules: now.unknown > rules.unknown,
        "{unknown:.0%} of the texts have no reward: check the workers and the server of rewards, the "
        "budget, and whether the recording has what the plans ask for",
    ),
)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run should stop."""

    rule: str
    """Name of the rule, which logs keep."""
    told: str
    """What happened, and what to do about it."""


@dataclass(slots=True)
class _Memory:
    """What guards remember between steps."""

    step: int = 0
    first: list[dict[str, float]] = field(default_factory=list)
    """The reference values of each of the first steps."""
    broken: dict[str, int] = field(default_factory=dict)
    """For each rule, the number of last steps in a row that broke it."""


_MEMORY = TypeAdapter(_Memory)


def ended_without_plans(steps: Sequence[Mapping[str, Any]]) -> Stop | None:
    """Return why a run failed although no rule stopped it: its last step has no valid plan.

    Args:
        steps: the lines of the log of the run.
    """
    if not steps or steps[-1]["valid_plans"]:
        return None
    told = f"none of the {steps[-1]['texts']} texts of the last step, {steps[-1]['step']}, has a valid plan"
    return Stop("valid_plans", f"the run ended without plans: {told}. {PLANS_ARE_LEARNT}.")


class Guards:
    """Checks each step of a run against the rules.

    Args:
        settings: the settings of the rules.
        memory: what an earlier process remembered (`Guards.memory`), to continue its run.

    Raises:
        pydantic.ValidationError: `memory` is not from `Guards.memory`.
    """

    def __init__(
        self, settings: GuardSettings | None = None, memory: Mapping[str, object] | None = None
    ) -> None:
        self.settings = settings or GuardSettings()
        self._memory = _Memory() if memory is None else _MEMORY.validate_python(memory)

    @property
    def memory(self) -> dict[str, object]:
        """What the guards remember, as JSON data; keep it with each checkpoint."""
        return asdict(self._memory)

    def check(self, measures: StepMeasures) -> Stop | None:
        """Return why the run should stop after this step, or `None`."""
        memory = self._memory
        memory.step = measures.step
        if len(memory.first) < self.settings.warm_up:
            memory.first.append(
                {
                    "entropy": entropy_of(measures),
                    "valid_plans": measures.valid_plans,
                    "length": measures.length,
                }
            )
        first = {name: fmean(each[name] for each in memory.first) for name in memory.first[0]}
        for rule in RULES:
            is_broken = rule.is_broken(measures, first, self.settings)
            memory.broken[rule.name] = memory.broken.get(rule.name, 0) + 1 if is_broken else 0
        stopping = [rule for rule in RULES if memory.broken[rule.name] >= self._patience(rule)]
        return Stop(stopping[0].name, self._told(stopping[0], measures)) if stopping else None

    def _patience(self, rule: Rule) -> int:
        return 1 if rule.at_once else self.settings.patience

    def _told(self, rule: Rule, measures: StepMeasures) -> str:
        values = {name: getattr(measures, name) for name in StepMeasures.__dataclass_fields__}
        steps = self._memory.broken[rule.name]
        since = f"step {measures.step}" if steps == 1 else f"{steps} steps up to step {measures.step}"
        return f"stopped after {since}: {rule.told.format(**values)}."
