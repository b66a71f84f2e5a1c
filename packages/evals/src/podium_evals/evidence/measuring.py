"""Measures a part of the page of results: asks its arms unless their answers are kept, and compares them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from podium_evals.arms import (
    Alone,
    Arm,
    ArmResult,
    Fold,
    OwnMajority,
    Tallies,
    ask_all,
    check_comparable,
    compare_answers,
)
from podium_evals.evidence.kept import KeptAnswers
from podium_evals.evidence.parts import Part
from podium_evals.recorded import Recordings
from podium_evals.results import BASE, Report, Setting, fingerprint, named_arms
from podium_evals.results.report import OnShare, asked_folds, report_of
from podium_evals.router import Tiers, measure_tiers

Told = Callable[[int], AbstractContextManager[OnShare]]
"""Takes the number of arms, and returns a context manager that shows their progress."""
OWN = OwnMajority(3).name
ABOVE_BEST = (0.0, 0.02, 0.05)
"""The wanted qualities of tiers, as differences to the best single worker's score."""
PRICES = (0.0001, 0.0003, 0.001)
"""The wanted prices of tiers, in USD for a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of a part of the page."""

    part: Part
    report: Report
    """All arms except the single workers, compared with the best single worker. Joint intervals hold for
    these arms."""
    workers: tuple[ArmResult, ...]
    """The single workers, compared with the best single worker in a separate comparison."""
    against_own: tuple[ArmResult, ...]
    """The arms, compared with three answers of the best single worker; empty if there are fewer samples."""
    tiers: Tiers | None
    """The tiers of a router; `None` if the part has no tiers."""

    def arm(self, name: str) -> ArmResult | None:
        """Return the result of an arm; `None` if the arm was not asked."""
        return next((arm for arm in self.report.arms if arm.name == name), None)

    @property
    def best_workers(self) -> str:
        """The workers that are the best single worker of some fold."""
        return ", ".join(each.name for each in self.report.workers if each.best_in)


async def measure(
    part: Part, recordings: Recordings, kept: KeptAnswers, *, processes: int, told: Told
) -> Measured:
    """Measure a part.

    Args:
        part: the comparison to make.
        recordings: the recorded answers of its pool.
        kept: the answers of earlier commands. New answers are added.
        processes: the number of processes that compute at the same time.
        told: returns a context manager that shows the progress.

    Raises:
        ArmUnfit: the recordings cannot be split, or the best single worker cannot be asked.
        RecordingInvalid: there are too few questions for bundles.
        RouterInvalid: a router of tiers cannot be fitted, or a price is not known.
    """
    setting = part.setting(recordings, processes)
    arms = named_arms(part.arms, recordings.workers)
    folds = asked_folds(recordings, setting)
    check_comparable(arms, folds, base=BASE, unit=setting.unit)
    asked = await _ask(arms, folds, setting, fingerprint(recordings), kept, told)
    ways = [arm for arm in arms if not isinstance(arm, Alone)]
    alone = [arm for arm in arms if isinstance(arm, Alone)]
    base = next(arm for arm in arms if arm.name == BASE)
    compared = compare_answers(ways, folds, asked, base=BASE, unit=setting.unit)
    singles = compare_answers([base, *alone], folds, asked, base=BASE, unit=setting.unit) if alone else []
    has_own = OWN in asked and asked[OWN].scores.keys() == {key for fold in folds for key in fold.kinds}
    return Measured(
        part=part,
        report=report_of(recordings, folds, compared, setting, recording=part.recording, pool=part.pool),
        workers=tuple(singles[1:]),
        against_own=tuple(
            compare_answers(ways, folds, asked, base=OWN, unit=setting.unit) if has_own else ()
        ),
        tiers=_tiers(recordings, kept) if part.tiers else None,
    )


def _tiers(recordings: Recordings, kept: KeptAnswers) -> Tiers:
    data, asked = fingerprint(recordings), [ABOVE_BEST, PRICES]
    found = kept.read_tiers(data, asked)
    if found is None:
        found = measure_tiers(recordings, above_best=ABOVE_BEST, prices=PRICES)
        kept.write_tiers(data, asked, found)
    return found


async def _ask(
    arms: Sequence[Arm],
    folds: Sequence[Fold],
    setting: Setting,
    data: str,
    kept: KeptAnswers,
    told: Told,
) -> dict[str, Tallies]:
    found = {arm.name: kept.read(data, setting, arm) for arm in arms}
    asked = {name: tallies for name, tallies in found.items() if tallies is not None}
    missing = [arm for arm in arms if arm.name not in asked]
    of = sum(len(fold.asked) for fold in folds) * len(setting.seeds)
    with told(len(missing)) as on_share:
        asked |= await ask_all(
            missing,
            folds,
            setting.seeds,
            setting.processes,
            lambda arm, number: on_share(arm, number, of),
            lambda arm, tallies: kept.write(data, setting, arm, tallies),
        )
    return asked
