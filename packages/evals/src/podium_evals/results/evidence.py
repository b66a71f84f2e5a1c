"""Keeps measured results in a folder, so that nothing is measured twice.

The key of kept answers is a digest of all that they depend on: the recorded answers, the setting, the arm,
and the source of both packages. After a change of the source, no kept answers are found.
"""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, astuple, dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import podium
import podium_evals
from podium_evals.arms import Arm, ArmResult, BestSingle, SplitName
from podium_evals.arms.baselines import AgainIfEmpty, Alone, OwnMajority
from podium_evals.arms.evaluation import Tallies, Tally, ask_all, check_comparable, compare_answers
from podium_evals.recorded import Recordings
from podium_evals.results import Report, Setting
from podium_evals.results.comparison import (
    BASE,
    NEED_PROBES,
    OnShare,
    asked_folds,
    every_sample,
    fingerprint,
    named_arms,
    report_of,
    shares,
)
from podium_evals.results.pools import CALLS, CALLS_ONLY, EASY, HARD, MMLU

_OF_CORE = ("hosted.py", "replay.py", "hosts", "mcp", "a2a", "config", "cli")
_OF_EVALS = ("audit", "commands.py", "config.py", "grading", "plans", "recording", "results", "tasks")
_OTHER_SOURCE = frozenset((*_OF_CORE, *_OF_EVALS))
"""Files and folders on which answers do not depend."""


class KeptAnswers:
    """The tallies of arms in a folder, which is a cache."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._folder = folder / source_digest()[:16]

    def read(self, fingerprint: str, setting: Setting, arm: Arm) -> Tallies | None:
        """Return the tallies of an arm; `None` if they are not kept, or their file is damaged."""
        try:
            kept = json.loads(self._path(fingerprint, setting, arm).read_text("utf-8"))
            of_query = {key: Tally(*values) for key, values in kept["of_query"].items()}
            tallies = Tallies(unrecorded=kept["unrecorded"], unfit=kept["unfit"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        tallies.of_query = defaultdict(Tally, of_query)
        return tallies

    def write(self, fingerprint: str, setting: Setting, arm: Arm, tallies: Tallies) -> None:
        """Keep the tallies of an arm. A killed process leaves no partial file."""
        path = self._path(fingerprint, setting, arm)
        told = {
            "of_query": {key: astuple(tally) for key, tally in tallies.of_query.items()},
            "unrecorded": tallies.unrecorded,
            "unfit": tallies.unfit,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_suffix(f".{os.getpid()}")
        begun.write_text(json.dumps(told), "utf-8")
        begun.replace(path)

    def forget_others(self) -> None:
        """Delete the answers that other versions of the source have kept."""
        for other in self._root.iterdir():
            if other != self._folder and other.is_dir():
                shutil.rmtree(other)

    def _path(self, fingerprint: str, setting: Setting, arm: Arm) -> Path:
        asked = asdict(setting)
        del asked["processes"]  # the figures do not depend on it
        key = [fingerprint, asked, type(arm).__qualname__, arm.name]
        return self._folder / f"{sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"


@cache
def source_digest() -> str:
    """Return the SHA-256 of all source that answers depend on, and of the versions of numerical packages."""
    digest = sha256(repr([version(name) for name in ("numpy", "scikit-learn", "scipy")]).encode())
    for package in (podium, podium_evals):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*")):
            path = file.relative_to(root)
            if file.suffix in (".py", ".toml") and _OTHER_SOURCE.isdisjoint(path.parts):
                digest.update(str(path).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


Told = Callable[[int], AbstractContextManager[OnShare]]
"""Takes the number of arms, and returns a context manager that shows their progress."""
OWN = OwnMajority(3).name
REPAIRED = AgainIfEmpty(BestSingle()).name
"""The arms with which the others are compared, besides the best single worker."""

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
_NEW = ("random", "again", "next-best", "kind-rule", "router", *NEED_PROBES, "vote-3", "own-3", "any-correct")
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


async def measure(
    part: Part, recordings: Recordings, kept: KeptAnswers, *, processes: int, told: Told
) -> Measured:
    """Measure a part: ask its arms, unless their answers are kept, and compare them."""
    setting = Setting(
        split=part.split, seeds=every_sample(recordings), probes=part.probes, processes=processes
    )
    arms = named_arms(part.arms, recordings.workers)
    folds = asked_folds(recordings, setting)
    check_comparable(arms, folds, base=BASE, unit=setting.unit)
    data = fingerprint(recordings)
    found = {arm.name: kept.read(data, setting, arm) for arm in arms}
    asked = {name: tallies for name, tallies in found.items() if tallies is not None}
    missing = [arm for arm in arms if arm.name not in asked]
    with told(len(missing)) as on_share:
        asked |= await ask_all(
            missing,
            folds,
            setting.seeds,
            processes,
            shares(folds, setting.seeds, on_share),
            lambda arm, tallies: kept.write(data, setting, arm, tallies),
        )
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
    )
