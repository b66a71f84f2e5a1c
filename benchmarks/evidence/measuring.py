"""The comparisons of the page of results: what is compared, and what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.evidence.arms import CalibratedArm, CalibratedRouterArm, EqualBudget, with_probes
from benchmarks.evidence.recordings import CALLS, CALLS_ONLY, EASY, HARD, MMLU
from podium_evals.arms import Arm, ArmResult, BestSingle, KindRule, SplitName
from podium_evals.arms.baselines import AgainIfEmpty, Alone, OwnMajority
from podium_evals.arms.evaluation import OnArm, ask_all, compare_answers
from podium_evals.recorded import Recordings
from podium_evals.results.comparison import (
    ARMS,
    BASE,
    Report,
    Setting,
    asked_folds,
    every_sample,
    report_of,
)

OWN = OwnMajority(3).name
REPAIRED = AgainIfEmpty(BestSingle()).name
"""The arms with which the others are compared, besides the best single worker."""

_MADE: Mapping[str, Callable[[Sequence[str]], Sequence[Arm]]] = {
    **ARMS,
    "calibrated": lambda _: [CalibratedArm()],
    "calibrated-found": lambda _: [CalibratedArm(is_told=False)],
    "calibrated-router": lambda _: [CalibratedRouterArm()],
    "equal-budget": lambda _: [EqualBudget(KindRule())],
}
_KNOWN = """workers random random-plan best again next-best kind-rule kind-next-best router vote-3 vote-5
    own-3 oracle any-correct"""
_CALLS = "workers random best kind-rule router equal-budget any-correct"
_NEW = """random best again next-best kind-rule router calibrated calibrated-found calibrated-router vote-3
    own-3 any-correct"""
_TITLES = {EASY: "easy", HARD: "hard", MMLU: "MMLU-Pro", CALLS: "tool calls", CALLS_ONLY: "without relevance"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A comparison of arms on one pool."""

    name: str
    """The name of the part, unique on the page."""
    recording: str
    pool: str
    arms: str = _KNOWN
    """Names of arms, in the order of the table. The best single worker is one of them."""
    split: SplitName = "questions"
    probes: int = 0
    """Number of probes of each new kind: graded questions that arms may read, and that no arm is asked."""

    @property
    def title(self) -> str:
        """The recording, and the pool if it has several, for tables."""
        title = _TITLES.get(self.recording, self.recording)
        return f"{title} {self.pool}" if self.recording in (EASY, HARD) else title


PRICED = "priced"
"""The pool of recordings with the cost of each answer."""
_POOLS = ((EASY, "mid"), (EASY, "all"), (HARD, "mid"), (HARD, "all"), (MMLU, "chat"))
PARTS = (
    *(Part(name=f"{recording}, {pool}", recording=recording, pool=pool) for recording, pool in _POOLS),
    *(
        Part(name=f"{recording}, {PRICED}", recording=recording, pool=PRICED, arms=_CALLS)
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

    def arm(self, name: str, base: str = BASE) -> ArmResult | None:
        """Return the result of an arm that has all answers, compared with `base`; else `None`."""
        results = self.report.arms if base == BASE else self.against.get(base, ())
        found = (arm for arm in results if arm.name == name and arm.score is not None)
        return next((arm for arm in found if arm.recorded == arm.questions), None)


async def measure(part: Part, recordings: Recordings, on_arm: OnArm = lambda _arm: None) -> Measured:
    """Ask the arms of a part, and compare them."""
    setting = Setting(split=part.split, seeds=every_sample(recordings))
    arms = [arm for name in part.arms.split() for arm in _MADE[name](recordings.workers)]
    folds = asked_folds(recordings, setting)
    if part.probes:
        folds = list(with_probes(folds, part.probes))
    asked = await ask_all(arms, folds, base=BASE, unit=setting.unit, seeds=setting.seeds, on_arm=on_arm)

    def compared(arms: Sequence[Arm], base: str) -> Sequence[ArmResult]:
        return compare_answers(arms, folds, asked, base=base, unit=setting.unit)

    ways = [arm for arm in arms if not isinstance(arm, Alone)]
    alone = [arm for arm in arms if arm.name == BASE or isinstance(arm, Alone)]
    keys = {key for fold in folds for key in fold.kinds}
    bases = [name for name in (REPAIRED, OWN) if name in asked and asked[name].scores.keys() == keys]
    return Measured(
        part=part,
        report=report_of(
            recordings, folds, compared(ways, BASE), setting, recording=part.recording, pool=part.pool
        ),
        workers=tuple(each for each in compared(alone, BASE) if each.name != BASE),
        against={name: compared(ways, name) for name in bases},
    )
