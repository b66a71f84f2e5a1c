"""Compares arms, and reports the result with all facts that are needed to repeat it: `podium evals run`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Annotated, Any, cast, get_args

import anyio
import typer
from rich.table import Table
from rich.text import Text

from podium.cli.arguments import AsJson
from podium.cli.screen import Screen, reporting
from podium.config import find_config, load_config
from podium.errors import ConfigError
from podium_evals.arms import Arm, ArmResult, BestSingle, Fold, KindRule, SplitName, evaluate, folds
from podium_evals.arms.baselines import (
    ROUTING_ORACLE,
    AgainIfEmpty,
    Alone,
    AnyCorrect,
    MajorityVote,
    OwnMajority,
    RandomWorkers,
    RoutingOracle,
    best_of,
)
from podium_evals.arms.evaluation import OnArm
from podium_evals.arms.planners import GivenPlanner
from podium_evals.recorded import Provenance, Recordings, read_pool, recorded_pool
from podium_evals.recorded.recording_file import question_line, sample_line
from podium_evals.results import rounding
from podium_evals.router.planner import RouterArm
from podium_evals.statistics import Unit

BASE = BestSingle().name
"""The name of the arm to compare the others with."""

ARMS: Mapping[str, Callable[[Sequence[str]], Sequence[Arm]]] = {
    "workers": lambda workers: [Alone(worker) for worker in workers],
    "random": lambda _: [RandomWorkers()],
    "random-plan": lambda _: [RandomWorkers(5)],
    "best": lambda _: [BestSingle()],
    "again": lambda _: [AgainIfEmpty(BestSingle(), "same")],
    "next-best": lambda _: [AgainIfEmpty(BestSingle())],
    "kind-rule": lambda _: [KindRule()],
    "kind-next-best": lambda _: [AgainIfEmpty(KindRule())],
    "router": lambda _: [RouterArm()],
    "vote-3": lambda _: [MajorityVote(3)],
    "vote-5": lambda _: [MajorityVote(5)],
    "own-3": lambda _: [OwnMajority(3)],
    "oracle": lambda _: [RoutingOracle()],
    "any-correct": lambda _: [AnyCorrect()],
}


def named_arms(names: Sequence[str], workers: Sequence[str]) -> list[Arm]:
    """Return the arms with these names, in the order of `ARMS`, and always the best single worker."""
    if unknown := [name for name in names if name not in ARMS]:
        raise ConfigError(f"there is no arm {unknown[0]!r}: the arms are {', '.join(ARMS)}")
    wanted = {*names, "best"}
    return [arm for name, make in ARMS.items() if name in wanted for arm in make(workers)]


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
    """The seed of the split."""
    questions: int | None = None
    """Maximum number of questions that are asked in a fold; `None` asks all."""

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
    on_arm: OnArm = lambda _arm: None,
) -> Report:
    """Ask arms the same questions, and compare them with the best single worker.

    Args:
        recordings: answers of a pool to questions that all of its workers have answered.
        arms: the arms; one of them is the best single worker.
        setting: how the arms are compared.
        recording: the name of the recording in the report.
        pool: the name of the pool in the report.
        on_arm: called with each arm before it is asked.

    Raises:
        ArmUnfit: the recordings cannot be split, or the best single worker cannot be asked.
    """
    parts = asked_folds(recordings, setting)
    results = await evaluate(arms, parts, base=BASE, unit=setting.unit, seeds=setting.seeds, on_arm=on_arm)
    return report_of(recordings, parts, results, setting, recording=recording, pool=pool)


def report_of(
    recordings: Recordings,
    parts: Sequence[Fold],
    results: Sequence[ArmResult],
    setting: Setting,
    *,
    recording: str,
    pool: str,
) -> Report:
    """Return a report on arms that have been asked and compared."""
    best = Counter(best_of(fold.train) for fold in parts)
    return Report(
        recording=recording,
        pool=pool,
        setting=setting,
        base=BASE,
        arms=tuple(results),
        workers=tuple(
            PricedWorker(name=each.worker, price_source=each.card.price_source, best_in=best[each.worker])
            for each in recorded_pool(recordings)
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
    """Return the folds of a setting."""
    return list(folds(recordings, setting.split, seed=setting.split_seed, questions=setting.questions))


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
    digest = sha256()
    for line in sorted(lines):
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def told_arms(screen: Screen) -> OnArm:
    """Return a function that says on a terminal which arm is asked."""
    return lambda arm: screen.note(f"podium: asks {arm.name}") if screen.interactive else None


_NEW = {
    "questions": "other questions of the same kinds; arms are fitted on the other half of each kind",
    "kinds": "other kinds; the kinds that arms are asked are not the kinds they are fitted on",
}


def draw_report(screen: Screen, report: Report) -> None:
    """Print a report to stdout."""
    head, foot = "\n".join(_head(report)), "\n".join(_foot(report))
    screen.draw(Text(screen.shown(head)), _table(screen, report), Text(screen.shown(foot)))


def _head(report: Report) -> Iterator[str]:
    asked, setting = report.arms[0].questions, report.setting
    yield f"{report.recording}, pool {report.pool}: {len(report.workers)} workers, {asked:,} questions asked"
    yield f"Intervals are about {_NEW[setting.split]}."


def _table(screen: Screen, report: Report) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("arm", overflow="fold", min_width=14)
    for title in ("score", "gain", "alone", "together", "calls", "empty", "$/1000", "s"):
        table.add_column(title, justify="right", no_wrap=True)
    for arm in report.arms:
        table.add_row(Text(screen.shown(arm.name + ("" if arm.achievable else " *"))), *_cells(arm))
    return table


def _cells(arm: ArmResult) -> Iterator[str]:
    yield rounding.score(None if arm.score is None else arm.score.mean)
    if arm.difference is None:
        yield from (rounding.UNKNOWN, "", "")
    else:
        yield rounding.gain(arm.difference.alone.mean)
        yield rounding.interval(arm.difference.alone)
        yield rounding.interval(arm.difference.together)
    yield rounding.count(arm.calls)
    yield rounding.percent(arm.empty)
    yield rounding.per_thousand(arm.cost)
    yield rounding.seconds(arm.latency_s)


def _foot(report: Report) -> Iterator[str]:
    best = [each.name for each in report.workers if each.best_in]
    yield (
        f"gain: above {report.base} ({', '.join(best)}), with 95 % intervals, alone and for all arms "
        "together. Scores and gains are rounded down, intervals outwards, other figures up."
    )
    if not all(arm.achievable for arm in report.arms):
        yield "* This arm reads the right answers: it is not a result."
    if any(arm.name == ROUTING_ORACLE for arm in report.arms):
        yield (
            f"The {ROUTING_ORACLE} is an estimate and no bound: the other samples of a question choose its "
            "worker, so an arm can be above it."
        )
    if report.is_estimated:
        yield "The tokens of some answers were not recorded, so their costs are not known."
    yield "empty: answers without text, or that the source could not read, in per cent."
    dates = sorted({each.price_source[-10:] for each in report.workers if each.price_source})
    if dates:
        yield f"Prices of {dates[0]}." if len(dates) == 1 else f"Prices of {dates[0]} to {dates[-1]}."
    yield from _about_unrecorded(report)
    if report.provenance is not None:
        yield f"Answers: {report.provenance.source} ({report.provenance.licence or 'no licence stated'})"


def _about_unrecorded(report: Report) -> Iterator[str]:
    for arm in report.arms:
        if arm.unfit:
            yield f"{arm.name} was not asked: {arm.unfit}"
        elif arm.recorded < arm.questions:
            missing = f"{arm.questions - arm.recorded:,} of {arm.questions:,}"
            yield f"{arm.name}: {missing} are not recorded, the first because {arm.unrecorded}"
            if arm.base_score is not None:
                told = rounding.score(arm.base_score)
                yield f"On the other {arm.recorded:,}, the {report.base} has {told}."


PoolName = Annotated[str, typer.Option(metavar="NAMES", help="all, or names of workers separated by commas.")]


def run(  # noqa: PLR0913 - one parameter for each argument and option
    recording: Annotated[str, typer.Argument(metavar="RECORDING", help="A file of recorded answers.")],
    *,
    pool: PoolName = "all",
    split: Annotated[str, typer.Option(help="What is new to the arms: questions, or kinds.")] = "questions",
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Arms separated by commas: {', '.join(ARMS)}. Default: all.",
        ),
    ] = None,
    planner: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Also compare the planner of this podium.toml. Its prompt says which plans have "
            "recorded answers. May be repeated.",
        ),
    ] = None,
    conductor: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Like --planner, but for a trained conductor: the prompt does not mention recorded answers.",
        ),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=2, help="Maximum number of questions that an arm is asked in a fold.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the split.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare ways to answer with the best single worker.

    The ways, called arms, are asked the same questions.
    """
    with reporting() as screen:
        if split not in get_args(SplitName):
            raise ConfigError(f"--split {split!r}: write {', '.join(get_args(SplitName))}")
        recordings = read_pool(recording, pool)
        names = list(ARMS)
        if arms is not None:
            names = [name.strip() for name in arms.split(",") if name.strip()]
        chosen = named_arms(names, recordings.workers)
        chosen += [given_planner(path) for path in planner or ()]
        chosen += [given_planner(path, is_told=False) for path in conductor or ()]
        setting = Setting(
            split=cast("SplitName", split),
            seeds=every_sample(recordings),
            split_seed=seed,
            questions=questions,
        )
        compare = partial(compare_arms, recording=recording, pool=pool, on_arm=told_arms(screen))
        report = anyio.run(compare, recordings, chosen, setting)
        if as_json:
            screen.result_json(report.as_json())
        else:
            draw_report(screen, report)


def given_planner(path: Path, *, is_told: bool = True) -> Arm:
    """Return the planner of a `podium.toml` as an arm."""
    planner = load_config(find_config(path)).planner()
    return GivenPlanner(f"planner of {path.stem}", planner, is_told=is_told)
