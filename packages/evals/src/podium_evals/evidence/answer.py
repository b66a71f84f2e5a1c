"""Writes the few sentences at the top of the page of results, from the measured figures."""

from collections.abc import Sequence

from podium_evals.arms import ArmResult
from podium_evals.evidence.measuring import Measured
from podium_evals.evidence.tables import between
from podium_evals.statistics import Interval

KINDS, ROUTER, VOTE = "kind rule", "learned router", "vote of the best 3"
MEASURED = "calibrated, kind found"


def answer(known: Sequence[Measured], new: Sequence[Measured]) -> str:
    """Return the sentences at the top of the page.

    Args:
        known: the measured parts with new questions of known kinds.
        new: the measured parts with new kinds.
    """
    return " ".join((_of_known_kinds(known), _of_new_kinds(new), _of_measured(new), _of_votes(known)))


def _of_known_kinds(known: Sequence[Measured]) -> str:
    rule, router = (_gaining(known, name) for name in (KINDS, ROUTER))
    if not rule:
        return (
            "Choosing a worker by the kind of the question is not shown to answer better than the best "
            f"single worker in any of {len(known)} pools."
        )
    told = (
        "On new questions of kinds that were measured before, choosing the worker by the kind of the "
        f"question answers better than the best single worker in {len(rule)} of {len(known)} pools "
        f"(the intervals of the gains span {_range(rule)})"
    )
    if not router:
        return f"{told}, and a small router that is not told the kind is not shown to gain in any."
    return (
        f"{told}, and so does a small router that is not told the kind in {len(router)} ({_range(router)})."
    )


def _of_new_kinds(new: Sequence[Measured]) -> str:
    shown = _gaining(new, ROUTER)
    if not shown:
        told = f"no gain of that router is shown in any of {len(new)} pools"
    else:
        told = f"that router is shown to gain in {len(shown)} of {len(new)} pools (from {_range(shown)})"
    lost = [each for each in _arms(new, ROUTER) if each.difference and each.difference.together.high < 0]
    told += f", and it loses in {len(lost)}" if lost else ""
    votes = _gaining(new, VOTE)
    gains = f" (from {_range(votes)})" if votes else ""
    return (
        f"On kinds that were never measured, {told}, while a vote of the three best workers gains in "
        f"{len(votes)} of {len(new)}{gains}, with three calls for each question."
    )


def _of_measured(new: Sequence[Measured]) -> str:
    measured = _arms(new, MEASURED)
    if not measured:
        return "The gain of measuring the workers on a few questions of a new kind was not measured."
    graded = max(each.report.setting.probes for each in new)
    told = f"With {graded} graded questions of each new kind, choosing the worker by the measured rates"
    gains = _gaining(new, MEASURED)
    if not gains:
        return f"{told} is not shown to gain in any of {len(measured)} pools."
    return f"{told} gains in {len(gains)} of {len(measured)} (from {_range(gains)}), with one call for each."


def _of_votes(known: Sequence[Measured]) -> str:
    differences = dict[str, Interval]()
    for each in known:
        vote = next((arm for arm in each.against_own if arm.name == VOTE), None)
        if vote is not None and vote.difference is not None:
            differences[each.part.title] = vote.difference.together
    if not differences:
        return "Whether three calls of the best single are worth more than three workers was not recorded."
    better = sum(interval.low > 0 for interval in differences.values())
    shown = f"shown in {better} of {len(differences)} pools" if better else "not shown"
    told = ", ".join(f"{between(interval)} on {title}" for title, interval in differences.items())
    return (
        "With three calls for each question, a gain of three different workers over three answers of the "
        f"best single worker is {shown} (differences of their votes: {told})."
    )


def _arms(measured: Sequence[Measured], name: str) -> list[ArmResult]:
    return [arm for each in measured if (arm := each.arm(name)) is not None]


def _gaining(measured: Sequence[Measured], name: str) -> list[Interval]:
    """Return the joint intervals that lie above zero."""
    found = [arm.difference.together for arm in _arms(measured, name) if arm.difference is not None]
    return [interval for interval in found if interval.low > 0]


def _range(intervals: Sequence[Interval]) -> str:
    low, high = min(each.low for each in intervals), max(each.high for each in intervals)
    return between(Interval(low, low, high))
