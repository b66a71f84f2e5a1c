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
        f"question answers better than the best single worker in {len(rule)} of {len(known)} pools. "
        f"The intervals of these gains reach from {_range(rule)}."
    )
    if not router:
        return f"{told} A small router that does not know the kind is not shown to gain in any pool."
    gains = f"{len(router)} pools (from {_range(router)})"
    return f"{told} A small router that does not know the kind is shown to gain in {gains}."


def _of_new_kinds(new: Sequence[Measured]) -> str:
    shown = _gaining(new, ROUTER)
    if not shown:
        told = f"a small router is not shown to gain in any of {len(new)} pools"
    else:
        told = f"a small router is shown to gain in {len(shown)} of {len(new)} pools (from {_range(shown)})"
    lost = [each for each in _arms(new, ROUTER) if each.difference and each.difference.together.high < 0]
    told += f", and loses in {len(lost)}" if lost else ""
    votes = _gaining(new, VOTE)
    gains = f" (from {_range(votes)})" if votes else ""
    return (
        f"On kinds that were never measured, {told}. A vote of the three best workers gains in {len(votes)} "
        f"of {len(new)} pools{gains}, with three calls for each question."
    )


def _of_measured(new: Sequence[Measured]) -> str:
    measured = _arms(new, MEASURED)
    if not measured:
        return "The gain of measuring the workers on a few questions of a new kind was not measured."
    graded = max(each.report.setting.probes for each in new)
    told = f"With {graded} graded questions of each new kind, a choice of workers by the measured rates"
    gains = _gaining(new, MEASURED)
    if not gains:
        return f"{told} is not shown to gain in any of {len(measured)} pools."
    pools = f"{len(gains)} of {len(measured)} pools (from {_range(gains)})"
    return f"{told} gains in {pools}, with one call for each question."


def _of_votes(known: Sequence[Measured]) -> str:
    differences = dict[str, Interval]()
    for each in known:
        vote = next((arm for arm in each.against_own if arm.name == VOTE), None)
        if vote is not None and vote.difference is not None:
            differences[each.part.title] = vote.difference.together
    if not differences:
        return (
            "No recording shows whether a vote of three different workers is better than three answers of "
            "the best single worker."
        )
    better = sum(interval.low > 0 for interval in differences.values())
    shown = (
        f"shown to be better in {better} of {len(differences)} pools" if better else "not shown to be better"
    )
    told = ", ".join(f"{between(interval)} on {title}" for title, interval in differences.items())
    return (
        "A vote of three different workers makes as many calls as a vote of three answers of the best single "
        f"worker. It is {shown} (differences: {told})."
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
