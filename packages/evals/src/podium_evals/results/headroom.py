"""Finds out whether a pool of workers can answer better than its best single worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from podium_evals.arms import (
    AnyCorrect,
    Arm,
    ArmResult,
    BestSingle,
    EqualBudgetVote,
    KindRule,
    MajorityVote,
    RandomWorker,
    RoutingOracle,
)
from podium_evals.results import rounding
from podium_evals.results.report import Report

Verdict = Literal["router", "vote", "oracle", "nothing"]
_VOTE = MajorityVote(3)
_EQUAL = EqualBudgetVote(_VOTE)


def headroom_arms() -> list[Arm]:
    """Return the arms that show the possible gains."""
    return [RandomWorker(), BestSingle(), KindRule(), _VOTE, _EQUAL, RoutingOracle(), AnyCorrect()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The conclusion about the possible gains of a pool."""

    verdict: Verdict
    """The simplest way that gains more than chance: a router that knows the kind, else a vote, else an
    oracle."""
    sentence: str


def conclude(report: Report) -> Conclusion:
    """Return the possible gains over the best single worker, from a report on `headroom_arms`.

    An arm gains if its joint interval, which holds for all arms together, is above zero.
    """
    arms = {arm.name: arm for arm in report.arms}
    if gain := _gain([arms[KindRule().name]]):
        return Conclusion(verdict="router", sentence=f"A router that knows the kind can gain {gain}.")
    if gain := _gain([arms[_VOTE.name], arms[_EQUAL.name]]):
        return Conclusion(verdict="vote", sentence=f"A vote gains {gain}; a router by kind does not.")
    if gain := _gain([arms[RoutingOracle().name]]):
        told = f"Only an oracle gains, {gain}: a router by kind and votes do not."
        return Conclusion(verdict="oracle", sentence=told)
    oracle, luck = arms[RoutingOracle().name], arms[AnyCorrect().name]
    if not oracle.recorded and (gain := _gain([luck])):
        told = (
            f"Only an oracle gains, at most {gain}: with one sample of each worker, luck cannot be "
            f"told from skill."
        )
        return Conclusion(verdict="oracle", sentence=told)
    return Conclusion(verdict="nothing", sentence="No gain is shown, not even for an oracle.")


def _gain(arms: Sequence[ArmResult]) -> str:
    """Return the interval of the first arm that gains; empty if none does."""
    for arm in arms:
        if arm.difference is not None and arm.difference.together.low > 0:
            low, high = rounding.interval(arm.difference.together).split()
            return f"{low} to {high}"
    return ""
