"""Compares arms, and reports the result with all facts that are needed to repeat the comparison."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from platform import python_version
from typing import Any

from podium_evals.arms import (
    Arm,
    ArmResult,
    Fold,
    SplitName,
    ask_all,
    bundled,
    check_comparable,
    compare_answers,
    folds,
)
from podium_evals.arms.baselines import best_of
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Provenance, Recordings, recorded_pool
from podium_evals.recorded.recording_file import question_line, sample_line
from podium_evals.results.named_arms import BASE
from podium_evals.statistics import Unit

OnShare = Callable[[Arm, int, int], object]
"""Called with an arm, the number of its new answers, and the number of answers that it will give in total."""
_PACKAGES = ("podium-evals", "podium-conductor", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How arms are compared."""

    split: SplitName = "questions"
    """What is new to the arms. With `kinds`, intervals are about other kinds; otherwise about other
    questions."""
    seeds: tuple[int, ...] = (0,)
    """The numbers of the samples to use."""
    split_seed: int = 0
    """The seed of the split and of the bundles."""
    folds: int = 5
    """Number of folds of the split `kinds`."""
    questions: int | None = None
    """Maximum number of questions that are asked in a fold; `None` asks all."""
    probes: int = 0
    """Number of probes of each new kind: questions that arms may read with their scores. Only with
    `kinds`."""
    bundles: int | None = None
    """Number of bundles that are asked in place of the questions; `None` asks the questions one by one."""
    processes: int = 1
    """Number of processes that compute at the same time. The figures do not depend on it."""

    @property
    def unit(self) -> Unit:
        """The population of the intervals: other questions of the same kinds, or other kinds."""
        return "kind" if self.split == "kinds" else "question"


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedWorker:
    """A worker of the pool, and the source of its price."""

    name: str
    price_source: str
    """The source and the date of its price; empty if the price is not known."""
    best_in: int
    """Number of folds in which the worker is the best single worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a comparison of arms."""

    recording: str
    """The name or the path of the recording."""
    pool: str
    """The name of the pool."""
    setting: Setting
    base: str
    """The arm with which the others are compared."""
    arms: tuple[ArmResult, ...]
    workers: tuple[PricedWorker, ...]
    recorded_questions: int
    """Number of questions that all workers have answered, before the split."""
    left_out: dict[str, int]
    """Number of recorded answers that were left out, by reason."""
    is_estimated: bool
    """Whether the tokens of some calls are estimated from texts."""
    provenance: Provenance | None
    """The source of the answers; `None` if it is not known."""
    fingerprint: str
    """SHA-256 of the questions and answers; the same data has the same digest."""
    versions: dict[str, str]
    made: str
    """When the comparison was made, in ISO 8601."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values, unrounded."""
        return asdict(self)


async def compare_arms(
    recordings: Recordings,
    arms: Sequence[Arm],
    setting: Setting,
    *,
    recording: str,
    pool: str = "all",
    on_share: OnShare = lambda _arm, _number, _of: None,
) -> Report:
    """Ask arms the same questions, and compare them with the best single worker.

    Args:
        recordings: answers of a pool to questions that all of its workers have answered.
        arms: the arms; one of them is the best single worker.
        setting: how the arms are compared.
        recording: the name of the recording in the report.
        pool: the name of the pool in the report.
        on_share: called after each answer, to show progress.

    Raises:
        ArmUnfit: the recordings cannot be split, or the best single worker cannot be asked.
        RecordingInvalid: there are too few questions for the bundles.
    """
    parts = asked_folds(recordings, setting)
    check_comparable(arms, parts, base=BASE, unit=setting.unit)
    of = sum(len(fold.asked) for fold in parts) * len(setting.seeds)
    asked = await ask_all(
        arms, parts, setting.seeds, setting.processes, lambda arm, number: on_share(arm, number, of)
    )
    results = compare_answers(arms, parts, asked, base=BASE, unit=setting.unit)
    return report_of(recordings, parts, results, setting, recording=recording, pool=pool)


def report_of(  # noqa: PLR0913 - all parts of a report
    recordings: Recordings,
    parts: Sequence[Fold],
    results: Sequence[ArmResult],
    setting: Setting,
    *,
    recording: str,
    pool: str,
    base: str = BASE,
) -> Report:
    """Return a report on arms that have been asked and compared.

    Args:
        recordings: answers of a pool to questions that all of its workers have answered.
        parts: the folds of the setting.
        results: the results of the arms.
        setting: how the arms were compared.
        recording: the name of the recording in the report.
        pool: the name of the pool in the report.
        base: the arm with which the others were compared.
    """
    best = Counter(best_of(fold.train) for fold in parts)
    pooled = recorded_pool(recordings)
    return Report(
        recording=recording,
        pool=pool,
        setting=setting,
        base=base,
        arms=tuple(results),
        workers=tuple(
            PricedWorker(name=each.worker, price_source=each.card.price_source, best_in=best[each.worker])
            for each in pooled
        ),
        recorded_questions=len(recordings),
        left_out=dict(recordings.left_out),
        is_estimated=any(sample.usage is None for each in recordings for sample in each.samples),
        provenance=recordings.provenance,
        fingerprint=fingerprint(recordings),
        versions={"python": python_version()} | {name: version(name) for name in _PACKAGES},
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def asked_folds(recordings: Recordings, setting: Setting) -> list[Fold]:
    """Return the folds of a setting.

    Raises:
        ArmUnfit: the recordings cannot be split in this way.
        RecordingInvalid: there are too few questions for the bundles.
    """
    parts = folds(
        recordings,
        setting.split,
        count=setting.folds,
        seed=setting.split_seed,
        questions=setting.questions,
        probes=setting.probes,
    )
    if setting.bundles is None:
        return list(parts)
    if setting.split == "kinds":
        raise ArmUnfit("bundles have several kinds and cannot be split by kinds: split by questions")
    return [bundled(fold, setting.bundles, seed=setting.split_seed) for fold in parts]


def every_sample(recordings: Recordings, most: int = 3) -> tuple[int, ...]:
    """Return one seed for each sample of the worker with the most samples, up to `most` seeds."""
    counts = (len(each.samples) for each in recordings)
    return tuple(range(min(most, max(counts, default=1))))


def fingerprint(recordings: Recordings) -> str:
    """Return the SHA-256 of all questions and answers; their order does not matter."""
    lines = {question_line(question) for question in recordings.questions}
    lines |= {
        sample_line(each.question, each.worker, sample) + str(number)
        for each in recordings
        for number, sample in enumerate(each.samples)
    }
    return _digest(sorted(lines))


def _digest(lines: Iterable[str]) -> str:
    digest = sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
