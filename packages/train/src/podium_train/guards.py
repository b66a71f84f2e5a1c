"""The measures of training steps, held-out episodes and second rounds, and the rules that stop a run."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, log
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from podium.cli.screen import counted
from podium.errors import ConfigError
from podium_train.environments import Episode
from podium_train.rewards import Score, WhyUnknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondRounds:
    """Answers before and after a second round. Shares are from 0 to 1."""

    texts: int
    """Number of texts of second rounds whose outcome is known."""
    before: float
    """Accuracy after the first round."""
    after: float
    """Accuracy after the second round. A text without a valid plan leaves the answer as it was, as in a
    run."""
    kept: float
    """Share of the texts that keep the answer."""
    helped: float
    """Share of the texts after which the answer is better."""
    harmed: float
    """Share of the texts after which the answer is worse."""


def second_rounds(scores: Sequence[Score], others: Sequence[Score] = ()) -> SecondRounds | None:
    """Return what second rounds changed; `None` if no outcome of a second round is known."""
    known = [score for score in scores if score.value is not None and score.before is not None]
    if not known:
        return None
    pairs = [
        (_grade(score.before), _grade(score.before if score.problem else score.value)) for score in known
    ]
    rest = [_grade(score.value) for score in others if score.value is not None]
    return SecondRounds(
        texts=len(known),
        before=fmean([before for before, _ in pairs] + rest),
        after=fmean([after for _, after in pairs] + rest),
        kept=fmean(score.kept for score in known),
        helped=fmean(after > before for before, after in pairs),
        harmed=fmean(after < before for before, after in pairs),
    )


def second_told(found: SecondRounds | None) -> str:
    """Return the words on second rounds after other measures; empty if there are none."""
    if found is None:
        return ""
    return (
        f"; second rounds {found.before:.3f} -> {found.after:.3f} "
        f"(kept {found.kept:.0%}, helped {found.helped:.0%}, harmed {found.harmed:.0%})"
    )


def _grade(value: float | None) -> float:
    return max(0.0, 2 * (value or 0.0) - 1)


REASONS: Mapping[WhyUnknown, str] = {
    "outcome": "a worker did not answer, or an answer is not recorded",
    "budget": "the budget is spent",
}
"""Why an outcome is unknown, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Accuracy on one held-out split."""

    sampled: float | None
    """With the temperature of training; `None` if no outcome is known."""
    greedy: float | None
    """With the most probable tokens; `None` if no outcome is known. It hides what training changes: look at
    both."""
    unknown: Mapping[WhyUnknown, int] = field(default_factory=dict)
    """Number of texts without an outcome, by the reason. They do not count in the accuracy."""
    sampled_second: SecondRounds | None = None
    """What second rounds make of the sampled answers, if the conductor has them."""
    greedy_second: SecondRounds | None = None
    """What second rounds make of the greedy answers."""

    @property
    def reached(self) -> float | None:
        """The sampled accuracy after all rounds, by which the best checkpoint is chosen."""
        return self.sampled if self.sampled_second is None else self.sampled_second.after


def accuracy(scores: Sequence[Score]) -> float | None:
    """Return the mean grade of the answers whose outcome is known; `None` without any."""
    grades = [max(0.0, 2 * score.value - 1) for score in scores if score.value is not None]
    return fmean(grades) if grades else None


def held_out_told(found: HeldOut) -> str:
    """Return the words on a measurement, with the number of unknown outcomes."""
    sampled, greedy = ("unknown" if each is None else f"{each:.3f}" for each in (found.sampled, found.greedy))
    missing = "".join(
        f"; the outcome of {counted(number, 'text')} is unknown: {REASONS[why]}"
        for why, number in found.unknown.items()
    )
    return f"{sampled} sampled, {greedy} greedy{missing}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A text of the conductor in training."""

    episode: Episode
    """The episode; texts for equal episodes are a group."""
    score: Score
    """Its reward."""
    length: int
    """Tokens of the text."""
    cut: bool = False
    """Whether the text was cut at the maximum length."""
    text: str = ""
    """The text, for the log of texts."""
    earlier: str | None = None
    """The text of the first round, for a text of the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMeasures:
    """What a step of training showed: one line of the log. Shares are from 0 to 1."""

    step: int
    """Number of the step, from 1."""
    texts: int
    """Number of texts."""
    reward: float
    """Mean reward of the texts with a known reward."""
    accuracy: float
    """Mean grade of the answers of these texts; a text without a valid plan has grade 0."""
    valid_plans: float
    """Share of texts with a valid plan."""
    unknown: float
    """Share of texts without a reward, because their outcome is unknown."""
    groups_without_variance: float
    """Share of groups whose known rewards are all equal; they teach nothing."""
    steps: Mapping[int, int] = field(default_factory=dict)
    """Number of plans by number of steps."""
    worker_entropy: float = 0.0
    """Entropy of the workers that the plans use, relative to the pools: 1 if each worker of a pool is used
    equally often, 0 if one worker does all."""
    number_entropy: float = 0.0
    """The same for the numbers of the workers in their pools, whose order is random."""
    most_used: str = ""
    """The worker with the largest share of the steps of the pools that have it."""
    most_used_share: float = 0.0
    """This share."""
    length: float = 0.0
    """Mean tokens of a text."""
    cut: float = 0.0
    """Share of texts that were cut at the maximum length."""
    cost: float = 0.0
    """Cost of the executed plans, without the stored ones; unknown costs count as 0."""
    cached: float = 0.0
    """Share of texts whose outcome was stored."""
    loss: float | None = None
    """Loss of the step, if the trainer tells it."""
    moved: float | None = None
    """Share of the trained weights that differ from those at the start of the command, if known."""
    seconds: float | None = None
    """Duration of the step, if known."""
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)
    """Accuracy on held-out splits, at the steps that measure it."""
    second: SecondRounds | None = None
    """What the texts of second rounds change. All other measures but the cost are of the
    first rounds only."""


def measure(
    step: int,
    samples: Sequence[Sample],
    *,
    loss: float | None = None,
    moved: float | None = None,
    seconds: float | None = None,
    held_out: Mapping[str, HeldOut] | None = None,
) -> StepMeasures:
    """Return the measures of a step."""
    second = second_rounds([sample.score for sample in samples if sample.score.second_round])
    executed = [sample.score.cost or 0.0 for sample in samples if not sample.score.cached]
    samples = [sample for sample in samples if not sample.score.second_round]
    scores = [sample.score for sample in samples]
    values = [score.value for score in scores if score.value is not None]
    planned = [sample for sample in samples if sample.score.workers]
    groups: dict[str, set[float]] = defaultdict(set)
    for sample in samples:
        groups[sample.episode.key].update(() if sample.score.value is None else (sample.score.value,))
    shares = _worker_shares(planned)
    most_used = max(shares, key=lambda name: (shares[name], name), default="")
    return StepMeasures(
        step=step,
        texts=len(samples),
        reward=fmean(values) if values else 0.0,
        accuracy=accuracy(scores) or 0.0,
        valid_plans=len(planned) / len(samples),
        unknown=1 - len(values) / len(samples),
        groups_without_variance=fmean(len(found) < 2 for found in groups.values()),
        steps=dict(sorted(Counter(len(sample.score.workers) for sample in planned).items())),
        worker_entropy=relative_entropy(planned, by_name=True),
        number_entropy=relative_entropy(planned, by_name=False),
        most_used=most_used,
        most_used_share=shares.get(most_used, 0.0),
        length=fmean(sample.length for sample in samples),
        cut=fmean(sample.cut for sample in samples),
        cost=sum(executed),
        cached=fmean(score.cached for score in scores),
        loss=loss,
        moved=moved,
        seconds=seconds,
        held_out=held_out or {},
        second=second,
    )


def relative_entropy(samples: Sequence[Sample], *, by_name: bool) -> float:
    """Return the entropy of the used workers, divided by the entropy of equal use of each pool."""
    used: Counter[str] = Counter()
    offered: dict[str, float] = defaultdict(float)
    for sample in samples:
        names = sample.episode.workers if by_name else [str(n) for n in range(len(sample.episode.cards))]
        for worker in sample.score.workers:
            used[names[worker]] += 1
            for name in names:
                offered[name] += 1 / len(names)
    most = _entropy(offered)
    return _entropy(used) / most if most else 1.0


def _worker_shares(samples: Sequence[Sample]) -> dict[str, float]:
    used, offered = Counter[str](), Counter[str]()
    for sample in samples:
        names = sample.episode.workers
        used.update(names[worker] for worker in sample.score.workers)
        offered.update(dict.fromkeys(names, len(sample.score.workers)))
    return {name: round(used[name] / offered[name], 4) for name in sorted(used)}


def _entropy(weights: Mapping[str, float]) -> float:
    total = sum(weights.values())
    return sum(weight / total * log(total / weight) for weight in weights.values() if weight)


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
    """Return why a run failed although no rule stopped it: its last step has no valid plan."""
    if not steps or steps[-1]["valid_plans"]:
        return None
    told = f"none of the {steps[-1]['texts']} texts of the last step, {steps[-1]['step']}, has a valid plan"
    return Stop("valid_plans", f"the run ended without plans: {told}. {PLANS_ARE_LEARNT}.")


class Guards:
    """Checks each step of a run against the rules."""

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
