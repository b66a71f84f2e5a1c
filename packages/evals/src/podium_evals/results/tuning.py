"""Compares the ways to answer that a user could switch on, and chooses one by lower bounds.

Both halves of the questions are held out in turn: each way is fitted on one half and asked the other. So each
question is scored once, by a way that has not seen it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import anyio
import typer

from podium.budget import Limits
from podium.cli.arguments import AsJson
from podium.cli.screen import Screen, counted, reporting
from podium.config import Config, find_config, load_config
from podium.config.source import why_unreadable
from podium.errors import ConfigError
from podium.workers import Worker
from podium.workers.rates import MeasuredFile
from podium_evals.arms import Arm, ArmResult, BestSingle, Fold, evaluate, folds, ranked
from podium_evals.arms.baselines import AgainIfEmpty, MajorityVote, OwnMajority
from podium_evals.arms.evaluation import OnArm
from podium_evals.arms.planners import ChoosingArm
from podium_evals.calibration import measured_file
from podium_evals.commands import record_answers
from podium_evals.errors import ArmUnfit, RouterInvalid
from podium_evals.grading import GRADERS, choose_graders
from podium_evals.recorded import Recording, Recordings, read_recordings
from podium_evals.recorded.recording_file import named_workers
from podium_evals.recording import QuestionRow, Summary, read_questions
from podium_evals.recording.recorder import in_options
from podium_evals.results import rounding
from podium_evals.results.comparison import (
    BASE,
    PoolName,
    every_sample,
    given_planner,
    told_arms,
)
from podium_evals.router.config import BEFORE, Settings, write_rates, write_settings
from podium_evals.router.planner import FoundKind, RouterArm, tier_arm
from podium_evals.router.router import Goal, fit_for, fit_router

CLOSE = 0.01
"""Ways whose lower bounds differ by less are chosen by their calls or cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a way may spend for a question, and what it must reach; `None` for anything."""

    calls: float | None = None
    """Maximum mean number of calls."""
    price: float | None = None
    """Maximum mean cost, in USD. It needs recorded tokens and prices."""
    quality: float | None = None
    """Mean score that the lower bound must reach, as cheaply as possible."""

    def allows(self, result: ArmResult) -> bool:
        """Return whether a way stays within the calls and the price."""
        too_many = self.calls is not None and (result.calls is None or result.calls > self.calls)
        too_dear = self.price is not None and (result.cost is None or result.cost > self.price)
        return not (too_many or too_dear)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to answer, and what `podium.toml` says for it."""

    arm: Arm
    settings: Callable[[Recordings], Settings] | None
    """Returns the settings, fitted on all questions; `None` for a planner that the user has already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What pays for a pool."""

    results: tuple[ArmResult, ...]
    """All ways, compared with the best single worker; joint intervals hold for all of them together."""
    questions: int
    chosen: str
    """The name of the chosen way."""
    why: str
    settings: Settings | None
    """What `podium.toml` says for the chosen way; `None` if the user has its planner already."""
    measured: MeasuredFile
    """The rates of all workers by kind."""
    best: tuple[str, ...]
    """The workers, the best first."""

    @property
    def lines(self) -> Iterator[str]:
        """The five lines that say what pays and what does not."""
        found = {result.name: result for result in self.results}
        base = found[BASE]
        told = f"the best single worker of the other half ({self.best[0]} on all questions)"
        yield f"Base: {told}, {_figures(base)}, on {self.questions:,} held-out questions."
        compared = [each for each in self.results if each.difference is not None]
        pays = [each for each in compared if each.difference and each.difference.together.low > 0]
        yield f"Pays: {_listed(pays)}."
        yield f"Is not shown to pay: {_listed([each for each in compared if each not in pays])}."
        missing = [f"{each.name} ({why})" for each in self.results if (why := _missing(each))]
        yield f"Not measured: {'; '.join(missing) or 'nothing'}."
        yield f"Chosen: {self.chosen}, {_figures(found[self.chosen])}: {self.why}."


def _missing(result: ArmResult) -> str:
    return result.unfit or (result.unrecorded if result.recorded < result.questions else "")


def _listed(results: Sequence[ArmResult]) -> str:
    told = []
    for each in sorted(results, key=lambda each: -(each.difference.together.low if each.difference else 0)):
        assert each.difference is not None  # otherwise it is not compared
        low, high = rounding.interval(each.difference.together).split()
        told.append(f"{each.name} {low} to {high} ({_calls(each)})")
    return "; ".join(told) or "nothing"


def _figures(result: ArmResult) -> str:
    assert result.score is not None  # it was chosen or is the base
    low, high = rounding.interval(result.score).replace("+", "").split()
    empty = "" if not result.empty else f", {100 * result.empty:.1f} % empty"
    return f"score {rounding.score(result.score.mean)} ({low} to {high}), {_calls(result)}{empty}"


def _calls(result: ArmResult) -> str:
    cost = "" if result.cost is None else f", ${rounding.per_thousand(result.cost)} for 1,000"
    return f"{rounding.count(result.calls)} calls{cost}"


def ways_of(recordings: Recordings, wish: Wish, planners: Sequence[Arm] = ()) -> list[Way]:
    """Return the ways to try, the simplest first."""
    single = BestSingle()
    repairs = all(sample.is_empty is not None for each in recordings for sample in each.samples)
    ways = [Way(single, lambda of: Settings(ask=_best(of, 1)))]
    if repairs:
        ways.append(Way(AgainIfEmpty(single, "same"), lambda of: Settings(ask=_best(of, 1))))
        ways.append(Way(AgainIfEmpty(single), lambda of: Settings(ask=_best(of, 1), next_best=_best(of))))
    if len(recordings.workers) >= 3:
        ways.append(Way(MajorityVote(3), lambda of: Settings(ask=_best(of, 3))))
    if len(every_sample(recordings)) >= 3:
        ways.append(Way(OwnMajority(3), lambda of: Settings(ask=_best(of, 1) * 3)))
    routes: list[tuple[ChoosingArm, Callable[[Recordings], Settings]]]
    routes = [(FoundKind(), _by_kind)] if len(recordings.kinds) > 1 else []
    routes.append((RouterArm(), lambda of: Settings(router=fit_router(of))))
    ways += [_repaired(arm, settings) if repairs else Way(arm, settings) for arm, settings in routes]
    wanted = {"price": wish.price, "quality": wish.quality}
    for goal in (Goal(of, value) for of, value in wanted.items() if value is not None):  # type: ignore[arg-type]
        ways.append(Way(tier_arm(goal), lambda of, goal=goal: Settings(router=fit_for(goal, of))))  # type: ignore[misc]
    return ways + [Way(arm, None) for arm in planners]


def _best(recordings: Recordings, most: int | None = None) -> tuple[str, ...]:
    return tuple(ranked(recordings)[:most])


def _by_kind(recordings: Recordings) -> Settings:
    return Settings(ask=_best(recordings, 1), by_kind=True, measured=measured_file(recordings))


def _repaired(arm: ChoosingArm, settings: Callable[[Recordings], Settings]) -> Way:
    """Return a way whose empty answers go to the next best worker."""
    return Way(AgainIfEmpty(arm), lambda of: replace(settings(of), next_best=_best(of)))


async def tuned(
    recordings: Recordings, wish: Wish, planners: Sequence[Arm], on_arm: OnArm = lambda _arm: None
) -> Tuning:
    """Find out which way pays, and choose one.

    A way pays if the lower bound of its gain over the best single worker is above zero, where the bounds hold
    for all ways together. Of the ways within the wish, the one with the highest bound is chosen; of bounds
    that are closer than .01, the one with the fewest calls, or with the lowest cost if costs are recorded.
    """
    ways = ways_of(recordings, wish, planners)
    (half,) = folds(recordings, "questions")
    parts, seeds = [half, Fold(train=half.test, test=half.train)], every_sample(recordings)
    arms = [way.arm for way in ways]
    results = await evaluate(arms, parts, base=BASE, unit="question", seeds=seeds, on_arm=on_arm)
    chosen, why = choose(results, wish)
    settings = next(way.settings for way in ways if way.arm.name == chosen.name)
    return Tuning(
        results=tuple(results),
        questions=len(recordings),
        chosen=chosen.name,
        why=why,
        settings=None if settings is None else settings(recordings),
        measured=measured_file(recordings),
        best=_best(recordings),
    )


def choose(results: Sequence[ArmResult], wish: Wish) -> tuple[ArmResult, str]:
    """Return the way to use, and why."""
    whole = [each for each in results if each.score is not None and each.recorded == each.questions]
    if wish.price is not None and all(each.cost is None for each in whole):
        raise ArmUnfit("a price needs recorded tokens and the price of each worker: leave --price out")
    within = [each for each in whole if wish.allows(each)]
    if not within:
        raise ArmUnfit("no way stays within the calls and the price that you state: allow more")
    if wish.quality is not None:
        good = [each for each in within if each.score and each.score.low >= wish.quality]
        if good:
            told = f"the cheapest whose lower bound reaches {wish.quality:g}"
            return min(good, key=_spent), told
    unreached = "" if wish.quality is None else f"no lower bound reaches {wish.quality:g}; "
    pays = [each for each in within if _bound(each) > 0]
    if not pays:
        base = next((each for each in within if each.name == BASE), None)
        if base is not None:
            return base, f"{unreached}no other way is shown to be better"
        best = max(within, key=lambda each: each.score.low if each.score else 0.0)
        return best, f"{unreached}the highest lower bound of a score within what you state"
    highest = max(map(_bound, pays))
    close = [each for each in pays if _bound(each) > highest - CLOSE]
    return min(close, key=_spent), f"{unreached}the highest lower bound of the gain, and the fewest calls"


def _bound(result: ArmResult) -> float:
    return 0.0 if result.difference is None else result.difference.together.low


def _spent(result: ArmResult) -> tuple[float, float]:
    spent = result.calls if result.cost is None else result.cost
    return (0.0 if spent is None else spent), -_bound(result)


PARTIAL = 3
"""The exit code if answers are missing."""


def tune(  # noqa: PLR0913 - one parameter for each argument and option
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A recording, or questions: JSON lines with `question` and `answer`, which the workers of "
            "the config are asked.",
        ),
    ],
    *,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The podium.toml to write. Default: the file in this folder."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Maximum cost of the calls of this command, in USD.")
    ] = None,
    calls: Annotated[int | None, typer.Option(min=1, help="Maximum calls of this command.")] = None,
    grader: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"Score answers: {', '.join(GRADERS)}, code, or your own MODULE:FUNCTION."
        ),
    ] = None,
    run_code: Annotated[
        str | None, typer.Option(metavar="PYTHON", help="Python interpreter for the grader `code`.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Answers of each worker to each question.")] = 1,
    calls_each: Annotated[
        float | None, typer.Option(min=1, help="Maximum mean calls for a question of the chosen way.")
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0, help="Maximum mean cost of a question of the chosen way, in USD.")
    ] = None,
    quality: Annotated[
        float | None, typer.Option(min=0, max=1, help="Score that the lower bound of the chosen way reaches.")
    ] = None,
    planner: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Also try the planner of this podium.toml. May be repeated."),
    ] = None,
    pool: PoolName = "all",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do not write podium.toml.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find out what pays for your workers, and write it into podium.toml.

    Repairs of empty answers, votes, routing by kind, routers and given planners are compared with the best
    single worker, on questions that they were not fitted on.
    """
    with reporting() as screen:
        loaded = _config(config)
        if _is_recording(source):
            recordings = read_recordings(source)
            names = named_workers(pool) or _common(recordings.workers, loaded)
            summary = None
        else:
            asking = _Asking(grader, run_code, samples, budget, calls)
            recordings, summary = _asked(screen, Path(source), loaded, asking)
            names = named_workers(pool) or recordings.workers
        graded = graded_answers(recordings, names)
        _tell_left_out(screen, recordings, graded)
        wish = Wish(calls=calls_each, price=price, quality=quality)
        planners = [given_planner(path) for path in planner or ()]
        found = anyio.run(tuned, graded, wish, planners, told_arms(screen))
        is_whole = summary is None or not (summary.failed or summary.stopped)
        written = [] if dry_run or loaded is None or not is_whole else _write(found, graded, loaded)
        told = _as_json(found) | {"written": list(written)}
        if as_json:
            screen.result_json(told)
        else:
            for line in found.lines:
                screen.result(screen.shown(line))
            if is_whole:
                _tell(screen, found, written, loaded, dry_run=dry_run)
        if not is_whole:
            screen.note("podium: wrote nothing: repeat the command to ask for the missing answers")
            raise typer.Exit(PARTIAL)


def _config(path: Path | None) -> Config | None:
    if path is not None:
        return load_config(find_config(path))
    with suppress(ConfigError):
        return load_config(find_config(None))
    return None


def _is_recording(source: str) -> bool:
    """Return whether a file is a recording; other files have questions."""
    if source.endswith(".gz"):
        return True
    try:
        with Path(source).open(encoding="utf-8") as file:
            return '"type": "recording"' in file.readline()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{source} cannot be read: {why_unreadable(error)}") from error


def _common(recorded: Sequence[str], config: Config | None) -> Sequence[str]:
    """Return the recorded workers that the config has, if it has two; else all."""
    known = [] if config is None else [name for name in recorded if name in config.worker_names]
    return known if len(known) > 1 else recorded


class _Asking(NamedTuple):
    """The options of the calls."""

    grader: str | None
    run_code: str | None
    samples: int
    budget: float | None
    calls: int | None


def _asked(screen: Screen, path: Path, config: Config | None, asking: _Asking) -> tuple[Recordings, Summary]:
    """Ask the workers of the config the questions of a file; answers are recorded beside the file."""
    if config is None:
        raise ConfigError("questions need workers: write a podium.toml, or name it (--config)")
    rows = read_questions(path)
    scoring = choose_graders(rows, asking.grader, asking.run_code)
    workers = _workers(config)
    most = asking.calls or len(rows) * len(workers) * asking.samples * 3
    limits = Limits(calls=most, cost=asking.budget, attempt_seconds=config.limits.attempt_seconds)
    answers = path.with_suffix(".answers.jsonl")

    summary = record_answers(
        screen, answers, rows, workers, limits=limits, samples=asking.samples, grader=scoring
    )
    assert summary is not None  # the answers are asked for
    cost = "an unknown cost" if summary.spent.cost is None else f"${summary.spent.cost:.4f}"
    screen.note(f"podium: {counted(summary.spent.calls, 'call')} at {cost}; the answers are in {answers}")
    for reason, number in summary.failed.most_common():
        screen.note(f"podium: {number} failed: {reason}")
    if summary.stopped:
        told = in_options(summary.stopped, {"cost": "--budget", "calls": "--calls"})
        screen.note(f"podium: {summary.left} answers were not asked for: {told}")
    return _of(read_recordings(answers), rows, workers), summary


def _of(recordings: Recordings, rows: Sequence[QuestionRow], workers: Sequence[Worker]) -> Recordings:
    """Return the answers to these questions, of these workers; the questions have their current kinds."""
    questions = {row.question.key: row.question for row in rows}
    names = {worker.card.name for worker in workers}
    return recordings.with_answers(
        Recording(questions[each.question.key], each.worker, each.samples)
        for each in recordings
        if each.question.key in questions and each.worker in names
    )


def _workers(config: Config) -> list[Worker]:
    """Return the workers of a config that answer questions."""
    single = [name for name in config.worker_names if not config.has_mcp_server(name)]
    found = [worker for worker in map(config.worker, single) if worker.reads_prose and not worker.acts]
    if len(found) < 2:
        told = counted(len(found), "worker")
        raise ConfigError(f"{config.path} has {told} that can be asked: tune compares two or more")
    return found


def graded_answers(recordings: Recordings, workers: Sequence[str]) -> Recordings:
    """Return the graded answers of workers to the questions to which all of these workers have one."""
    left_out, graded = recordings.left_out.copy(), list[Recording]()
    for each in recordings:
        samples = tuple(sample for sample in each.samples if sample.score is not None)
        if samples:
            graded.append(Recording(each.question, each.worker, samples))
        if len(samples) < len(each.samples):
            left_out["it has no score"] += len(each.samples) - len(samples)
    having_scores = recordings.with_answers(graded, left_out)
    if not len(having_scores):
        raise RouterInvalid(
            "no answer in the recording has a score: if calls failed, repeat them; else record with "
            "--grader, as in `podium evals record ask QUESTIONS --out FILE --grader number`"
        )
    unscored = (set(workers) & set(recordings.workers)) - set(having_scores.workers)
    if unscored:
        raise RouterInvalid(f"no answer of {min(unscored)!r} has a score: record its answers with --grader")
    common = having_scores.only(workers)
    if not len(common):
        raise RouterInvalid(
            f"no question has a graded answer of each of {', '.join(workers)}: "
            "`podium evals record ask QUESTIONS --out FILE` asks for the missing answers"
        )
    return common


def _tell_left_out(screen: Screen, recordings: Recordings, graded: Recordings) -> None:
    if less := len(recordings) - len(graded):
        screen.note(f"podium: {less:,} questions are left out, because a worker has no graded answer to them")
    for reason, number in graded.left_out.items():
        screen.note(f"podium: {number:,} answers are left out: {reason}")


def _write(found: Tuning, recordings: Recordings, config: Config) -> Sequence[str]:
    """Write the settings of the chosen way, if the config has the workers of the recording.

    Rates that the config names are measured again in any case, because a planner may read them.
    """
    if not set(recordings.workers) <= set(config.worker_names):
        return ()
    if found.settings is not None:
        return write_settings(found.settings, config)
    return [] if config.measured_path is None else [write_rates(found.measured, config)]


def _tell(
    screen: Screen, found: Tuning, written: Sequence[str], config: Config | None, *, dry_run: bool
) -> None:
    if written and config is not None:
        before = "" if found.settings is None else f"; before: {config.path.name}{BEFORE}"
        screen.note(f"podium: wrote {', '.join(written)} in {config.path.parent}{before}")
    elif found.settings is None:
        screen.note("podium: wrote nothing: use the [planner] of that file")
    elif not dry_run:
        screen.note("podium: wrote nothing: no podium.toml here has the workers of the recording")


def _as_json(found: Tuning) -> dict[str, object]:
    settings = found.settings
    return {
        "arms": [asdict(result) for result in found.results],
        "questions": found.questions,
        "chosen": found.chosen,
        "why": found.why,
        "lines": list(found.lines),
        "planner": None if settings is None else dict(settings.planner),
        "next_best": [] if settings is None else list(settings.next_best),
    }
