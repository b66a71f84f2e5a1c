"""The measures of one training step."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from statistics import fmean

from podium_train.environments import Episode
from podium_train.guards.held_out import HeldOut, accuracy
from podium_train.guards.second_rounds import SecondRounds, second_rounds
from podium_train.rewards import Score


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
    worker_shares: Mapping[str, float] = field(default_factory=dict)
    """For each worker its share of the steps of the pools that have it; workers without a step are left
    out."""
    most_used: str = ""
    """The worker with the largest of these shares."""
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
    """Return the measures of a step.

    Args:
        step: number of the step, from 1.
        samples: all texts of the step, at least one.
        loss: the loss, if known.
        moved: the share of the weights that moved, if known.
        seconds: the duration of the step, if known.
        held_out: accuracy on held-out splits, if it was measured at this step.
    """
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
        worker_shares=shares,
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
    """Return the entropy of the used workers, divided by the entropy of equal use of each pool.

    Args:
        samples: texts with plans.
        by_name: compare the workers; otherwise their numbers in the pools.
    """
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
