"""The comparisons of the page of results: what is compared, and what was measured."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from podium_evals.arms import (
    AgainIfEmpty,
    Alone,
    Arm,
    ArmResult,
    BestSingle,
    Fold,
    OwnMajority,
    SplitName,
    Tallies,
    ask_all,
    check_comparable,
    compare_answers,
)
from podium_evals.evidence.kept import KeptAnswers
from podium_evals.recorded import Recordings
from podium_evals.results import BASE, Report, Setting, fingerprint, named_arms
from podium_evals.results.named_arms import NEED_PROBES
from podium_evals.results.pools import CALLS, CALLS_ONLY, EASY, HARD, MMLU
from podium_evals.results.report import OnShare, asked_folds, every_sample, report_of
from podium_evals.router import Tiers, measure_tiers

Told = Callable[[int], AbstractContextManager[OnShare]]
"""Takes the number of arms, and returns a context manager that shows their progress."""
OWN = OwnMajority(3).name
REPAIRED = AgainIfEmpty(BestSingle()).name
"""The arms with which the others are compared, besides the best single worker."""
ABOVE_BEST = (0.0, 0.02)
"""The wanted qualities of tiers, as differences to the best single worker's score."""
PRICES = (0.0001, 0.001, 0.003)
"""The wanted prices of tiers, in USD for a question."""

_KNOWN = (
    "workers",
    "random",
    "random-plan",
    "again",
    "next-best",
    "kind-rule",
    "kind-next-best",
    "router",
    "vote-3",
    "vote-5",
    "own-3",
    "oracle",
    "any-correct",
)
_CALLS = ("workers", "random", "kind-rule", "router", "equal-budget", "any-correct")
_NEW = (
    "random",
    "again",
    "next-best",
    "kind-rule",
    "router",
    *NEED_PROBES,
    "vote-3",
    "own-3",
    "any-correct",
)
_BUNDLES = (
    "workers",
    "random",
    "next-best",
    "kind-rule",
    "kind-next-best",
    "router",
    "vote-3",
    "own-3",
    "any-correct",
)
_PARTS_OF_A_BUNDLE = 6
"""Minimum number of recorded questions for each bundle; a bundle has up to five parts of different kinds."""
_TITLES = {EASY: "easy", HARD: "hard", MMLU: "MMLU-Pro", CALLS: "tool calls", CALLS_ONLY: "without relevance"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A comparison of arms on one pool."""

    name: str
    """The name of the part, unique on the page."""
    recording: str
    pool: str
    arms: tuple[str, ...] = _KNOWN
    """Names of arms in `podium_evals.results.ARMS`; the best single worker is always compared."""
    split: SplitName = "questions"
    bundles: int | None = None
    """Maximum number of bundles, which are asked in place of the questions; fewer if there are few
    questions."""
    questions: int | None = None
    """Maximum number of questions that are asked in a fold; `None` asks all."""
    probes: int = 0
    """Number of probes of each new kind: graded questions that arms may read, and that no arm is asked."""
    tiers: bool = False
    """Whether tiers of a router are also measured. This needs the cost of each answer."""

    @property
    def title(self) -> str:
        """The recording, and the pool if it has several, for tables."""
        title = _TITLES.get(self.recording, self.recording)
        return f"{title} {self.pool}" if self.recording in (EASY, HARD) else title

    def setting(self, recordings: Recordings, processes: int) -> Setting:
        """Return the setting of this part's comparison."""
        bundles = self.bundles
        if bundles is not None:
            bundles = max(2, min(bundles, len(recordings) // 2 // _PARTS_OF_A_BUNDLE))
        return Setting(
            split=self.split,
            seeds=every_sample(recordings),
            questions=self.questions,
            probes=self.probes,
            bundles=bundles,
            processes=processes,
        )


_POOLS = ((EASY, "mid"), (EASY, "all"), (HARD, "mid"), (HARD, "all"), (MMLU, "chat"))
PARTS = (
    *(Part(name=f"{recording}, {pool}", recording=recording, pool=pool) for recording, pool in _POOLS),
    *(
        Part(name=f"{recording}, priced", recording=recording, pool="priced", arms=_CALLS, tiers=True)
        for recording in (CALLS, CALLS_ONLY)
    ),
    *(
        Part(
            name=f"{recording}, mid, kinds",
            recording=recording,
            pool="mid",
            arms=_NEW,
            split="kinds",
            probes=3,
        )
        for recording in (EASY, HARD)  # the others have too few kinds for claims about other kinds
    ),
    Part(
        name=f"{HARD}, mid, workers",
        recording=HARD,
        pool="mid",
        arms=("next-best", "kind-rule", "router", "vote-3"),
        split="workers",
        questions=300,
    ),
    *(
        Part(name=f"{recording}, mid, bundles", recording=recording, pool="mid", arms=_BUNDLES, bundles=300)
        for recording in (EASY, HARD)
    ),
)
"""The parts, in the order of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of a part of the page."""

    part: Part
    report: Report
    """All arms except the single workers, compared with the best single worker. Joint intervals hold for
    these arms."""
    workers: tuple[ArmResult, ...]
    """The single workers, compared with the best single worker in a separate comparison."""
    against: Mapping[str, Sequence[ArmResult]]
    """The arms, compared with `REPAIRED` and `OWN`, if those have all answers."""
    tiers: Tiers | None
    """The tiers of a router; `None` if the part has no tiers."""

    def arm(self, name: str, base: str = BASE) -> ArmResult | None:
        """Return the result of an arm that has all answers, compared with `base`; else `None`."""
        results = self.report.arms if base == BASE else self.against.get(base, ())
        found = (arm for arm in results if arm.name == name and arm.score is not None)
        return next((arm for arm in found if arm.recorded == arm.questions), None)


async def measure(
    part: Part, recordings: Recordings, kept: KeptAnswers, *, processes: int, told: Told
) -> Measured:
    """Measure a part: ask its arms, unless their answers are kept, and compare them.

    Args:
        part: the comparison to make.
        recordings: the recorded answers of its pool.
        kept: the answers of earlier commands. New answers are added.
        processes: the number of processes that compute at the same time.
        told: returns a context manager that shows the progress.

    Raises:
        ArmUnfit: the recordings cannot be split, or the best single worker cannot be asked.
        RecordingInvalid: there are too few questions for bundles.
        RouterInvalid: a router of tiers cannot be fitted, or a cost is not known.
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
    keys = {key for fold in folds for key in fold.kinds}
    bases = [name for name in (REPAIRED, OWN) if name in asked and asked[name].scores.keys() == keys]
    return Measured(
        part=part,
        report=report_of(recordings, folds, compared, setting, recording=part.recording, pool=part.pool),
        workers=tuple(singles[1:]),
        against={name: compare_answers(ways, folds, asked, base=name, unit=setting.unit) for name in bases},
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
