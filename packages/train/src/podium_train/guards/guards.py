"""Watches the measures of a run, and says when it should stop."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from podium_train.guards.measures import StepMeasures
from podium_train.guards.rules import PLANS_ARE_LEARNT, RULES, GuardSettings, Rule, entropy_of


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
