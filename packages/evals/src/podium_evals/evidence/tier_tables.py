"""The table of tiers: wanted and reached qualities and prices. Rounding never favours a router."""

from collections.abc import Iterator, Sequence

from podium_evals.evidence.measuring import Measured
from podium_evals.evidence.tables import score_between, table
from podium_evals.results import rounding
from podium_evals.router import Goal, Tier
from podium_evals.statistics import Interval

_HEAD = ("recording, pool", "stated", "score", "score, interval", "USD for 1,000", "USD, interval", "kept")


def tier_table(measured: Sequence[Measured]) -> str:
    """Return the table: each goal, and what its tier reaches on the other half of the questions.

    Args:
        measured: the measured parts; parts without tiers are left out.
    """
    return table(_HEAD, _rows(measured), 2)


def _rows(measured: Sequence[Measured]) -> Iterator[Sequence[str]]:
    for each in measured:
        if each.tiers is None:
            continue
        goals = [tier.goal for tier in each.tiers.tiers] + [goal for goal, _ in each.tiers.unreached]
        reached = {tier.goal: tier for tier in each.tiers.tiers}
        for goal in sorted(goals, key=lambda goal: (goal.of != "quality", goal.value)):
            cells = _cells(reached[goal]) if goal in reached else [*[""] * 4, "cannot be chosen"]
            yield [each.part.title, _stated(goal), *cells]


def _cells(tier: Tier) -> list[str]:
    score, cost = tier.reached.quality, tier.reached.cost
    return [
        rounding.score(score.mean),
        score_between(score),
        rounding.per_thousand(cost.mean),
        _cost_between(cost),
        _kept(tier),
    ]


def _stated(goal: Goal) -> str:
    if goal.of == "quality":
        return f"score of {rounding.score(goal.value)}"
    return f"{rounding.per_thousand(goal.value)} USD"


def _kept(tier: Tier) -> str:
    """Return whether the goal is reached on the other half, or lies within the interval there."""
    if tier.goal.of == "quality":
        reached, edge, stated = tier.reached.quality.mean, tier.reached.quality.high, tier.goal.value
        return "yes" if reached >= stated else "within the interval" if edge >= stated else "no"
    reached, edge, stated = tier.reached.cost.mean, tier.reached.cost.low, tier.goal.value
    return "yes" if reached <= stated else "within the interval" if edge <= stated else "no"


def _cost_between(interval: Interval) -> str:
    return f"{rounding.per_thousand_down(interval.low)} to {rounding.per_thousand(interval.high)}"


def single_table(measured: Sequence[Measured]) -> str:
    """Return the score and the cost of the best single worker of each pool, on the same questions."""
    rows = (
        [each.part.title, worker.name, rounding.score(worker.score), rounding.per_thousand(worker.cost)]
        for each in measured
        if each.tiers is not None
        for worker in each.tiers.workers
        if worker.is_best
    )
    return table(("recording, pool", "best single", "score", "USD for 1,000"), rows, 2)
