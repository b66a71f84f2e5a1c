"""Compares the published figures of a prototype with the figures of this evaluation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from podium_evals.arms import ArmResult
from podium_evals.evidence.measuring import OWN, Measured
from podium_evals.evidence.tables import between, score_between, table
from podium_evals.results import rounding
from podium_evals.results.pools import EASY, HARD, MMLU
from podium_evals.statistics import Interval

ANY, BEST, RULE, VOTE = "any correct, not achievable", "best single", "kind rule", "vote of the best 3"
RANDOM, ROUTER, CALIBRATED = "random worker", "learned router", "calibrated"


@dataclass(frozen=True, slots=True)
class Claim:
    """A published figure.

    Attributes:
        part: the part of the page that measures the same.
        arm: the arm.
        what: `score`, or `gain` for an interval of the gain over the best single.
        value: the score, or the interval as it was published.
    """

    part: str
    arm: str
    what: Literal["score", "gain"]
    value: float | tuple[float, float]


CLAIMS = (
    Claim(f"{EASY}, mid", RANDOM, "score", 0.453),
    Claim(f"{EASY}, mid", BEST, "score", 0.609),
    Claim(f"{EASY}, mid", RULE, "score", 0.694),
    Claim(f"{EASY}, mid", RULE, "gain", (0.073, 0.097)),
    Claim(f"{EASY}, mid", ROUTER, "score", 0.693),
    Claim(f"{EASY}, mid", ANY, "score", 0.773),
    Claim(f"{EASY}, all", RANDOM, "score", 0.546),
    Claim(f"{EASY}, all", BEST, "score", 0.824),
    Claim(f"{EASY}, all", RULE, "score", 0.850),
    Claim(f"{EASY}, all", RULE, "gain", (0.019, 0.035)),
    Claim(f"{EASY}, all", ROUTER, "score", 0.858),
    Claim(f"{EASY}, all", ANY, "score", 0.903),
    Claim(f"{EASY}, all", OWN, "score", 0.843),
    Claim(f"{EASY}, all", VOTE, "score", 0.838),
    Claim(f"{HARD}, mid", RANDOM, "score", 0.321),
    Claim(f"{HARD}, mid", BEST, "score", 0.410),
    Claim(f"{HARD}, mid", RULE, "score", 0.511),
    Claim(f"{HARD}, mid", RULE, "gain", (0.087, 0.115)),
    Claim(f"{HARD}, mid", ROUTER, "score", 0.513),
    Claim(f"{HARD}, mid", ANY, "score", 0.614),
    Claim(f"{HARD}, all", RANDOM, "score", 0.404),
    Claim(f"{HARD}, all", BEST, "score", 0.633),
    Claim(f"{HARD}, all", RULE, "score", 0.676),
    Claim(f"{HARD}, all", RULE, "gain", (0.031, 0.053)),
    Claim(f"{HARD}, all", ROUTER, "score", 0.670),
    Claim(f"{HARD}, all", ANY, "score", 0.754),
    Claim(f"{MMLU}, chat", RANDOM, "score", 0.513),
    Claim(f"{MMLU}, chat", BEST, "score", 0.718),
    Claim(f"{MMLU}, chat", RULE, "score", 0.732),
    Claim(f"{MMLU}, chat", VOTE, "score", 0.733),
    Claim(f"{MMLU}, chat", ANY, "score", 0.915),
    Claim(f"{EASY}, mid, kinds", BEST, "score", 0.608),
    Claim(f"{EASY}, mid, kinds", ROUTER, "score", 0.637),
    Claim(f"{EASY}, mid, kinds", CALIBRATED, "score", 0.671),
    Claim(f"{EASY}, mid, kinds", CALIBRATED, "gain", (0.028, 0.097)),
    Claim(f"{HARD}, mid, kinds", BEST, "score", 0.394),
    Claim(f"{HARD}, mid, kinds", ROUTER, "score", 0.424),
    Claim(f"{HARD}, mid, kinds", CALIBRATED, "score", 0.493),
    Claim(f"{HARD}, mid, kinds", CALIBRATED, "gain", (0.058, 0.142)),
)


def comparison(measured: Sequence[Measured]) -> str:
    """Return a table of published figures beside the measured figures of this evaluation."""
    head = ("pool, arm", "published prototype", "here", "interval here", "agrees")
    return table(head, _rows({each.part.name: each for each in measured}))


def _rows(parts: dict[str, Measured]) -> Iterator[Sequence[str]]:
    for claim in CLAIMS:
        measured = parts.get(claim.part)
        arm = None if measured is None else measured.arm(claim.arm)
        if measured is None or arm is None or arm.score is None or arm.recorded < arm.questions:
            continue
        is_new = ", new kinds" if measured.part.split == "kinds" else ""
        name = f"{measured.part.title}{is_new}: {claim.arm}"
        if isinstance(claim.value, float):
            told, agrees = rounding.score(claim.value), _is_in(claim.value, arm.score)
            yield [
                name,
                told,
                rounding.score(arm.score.mean),
                score_between(arm.score),
                "yes" if agrees else "no",
            ]
        elif (gain := _gain(arm)) is not None:
            low, high = claim.value
            told = between(Interval(low, low, high))
            overlaps = gain.low <= high and low <= gain.high
            mean = rounding.gain(gain.mean).replace("-", "−")
            yield [f"{name}, gain", told, mean, between(gain), "overlaps" if overlaps else "no"]


def _is_in(value: float, interval: Interval) -> bool:
    return interval.low <= value <= interval.high


def _gain(arm: ArmResult) -> Interval | None:
    return None if arm.difference is None else arm.difference.alone
