"""Is there anything to gain from a pool of workers?"""

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
    """Return the arms that show how much there is to gain."""
    return [RandomWorker(), BestSingle(), KindRule(), _VOTE, _EQUAL, RoutingOracle(), AnyCorrect()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What is to gain."""

    verdict: Verdict
    """What gains, beyond chance: a router that knows the kind, else a vote, else only an oracle."""
    sentence: str


def conclude(report: Report) -> Conclusion:
    """Return what is to gain over the best single, from a report on `headroom_arms`.

    An arm gains if its interval, which holds for all arms together, is above zero.
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
            f"Only an oracle gains, at most {gain}: with one sample of each worker its luck is not told "
            "from skill."
        )
        return Conclusion(verdict="oracle", sentence=told)
    return Conclusion(verdict="nothing", sentence="There is nothing to gain.")


def _gain(arms: Sequence[ArmResult]) -> str:
    """Return the interval of the first arm that gains; empty if none does."""
    for arm in arms:
        if arm.difference is not None and arm.difference.together.low > 0:
            low, high = rounding.interval(arm.difference.together).split()
            return f"{low} to {high}"
    return ""
