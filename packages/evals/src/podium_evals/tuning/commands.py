"""`podium evals tune`: find out which ways to answer pay, and write the best one into `podium.toml`."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer

from podium.budget import Limits
from podium.cli.arguments import AsJson
from podium.cli.screen import Screen, counted, reporting
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium.workers import Worker
from podium_evals.arms import Arm, GivenPlanner
from podium_evals.errors import RouterInvalid
from podium_evals.grading import GRADERS, choose_graders
from podium_evals.recorded import Recording, Recordings, read_recordings
from podium_evals.recording import GrowingFile, QuestionRow, Recorder, Summary, read_questions
from podium_evals.recording.recorder import Forecaster, in_options
from podium_evals.results.commands import DataFolder, Out, PoolName, Processes, save
from podium_evals.results.pools import POOLS, named_workers, read_recording
from podium_evals.results.progress import answer_bar, cores
from podium_evals.tuning.tuning import Tuning, Wish, tune as tuned
from podium_evals.tuning.written import BEFORE, write_rates, write_settings

FEW = 500
PARTIAL = 3
"""The exit code if answers are missing."""


def tune(  # noqa: PLR0913 - one parameter for each argument and option
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help=f"A recording ({', '.join(POOLS)}, or a file), or questions: JSON lines with `question` and "
            f"`answer`, which the workers of the config are asked.",
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
    data: DataFolder = None,
    processes: Processes = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do not write podium.toml.")] = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Find out what pays for your workers, and write it into podium.toml.

    Repairs of empty answers, votes, routing by kind, routers and given planners are compared with the best
    single worker, on questions that they were not fitted on.
    """
    with reporting() as screen:
        loaded = _config(config)
        if _is_recording(source):
            recordings = anyio.run(partial(read_recording, source, folder=data))
            names = named_workers(source, pool) or _common(recordings.workers, loaded)
            summary = None
        else:
            asking = _Asking(grader, run_code, samples, budget, calls)
            recordings, summary = _asked(screen, Path(source), loaded, asking)
            names = named_workers(source, pool) or recordings.workers
        graded = graded_answers(recordings, names)
        _tell_left_out(screen, recordings, graded)
        wish = Wish(calls=calls_each, price=price, quality=quality)
        found = _tuned(screen, graded, wish, [_given(path) for path in planner or ()], processes)
        written = [] if dry_run or loaded is None else _write(found, graded, loaded)
        told = _as_json(found) | {"written": list(written)}
        save(out, told)
        if as_json:
            screen.result_json(told)
        else:
            for line in found.lines:
                screen.result(screen.shown(line))
            _tell(screen, found, written, loaded, dry_run=dry_run)
        if summary is not None and (summary.failed or summary.stopped):
            screen.note("podium: repeat the command to ask for the missing answers")
            raise typer.Exit(PARTIAL)


def _config(path: Path | None) -> Config | None:
    if path is not None:
        return load_config(find_config(path))
    with suppress(ConfigError):
        return load_config(find_config(None))
    return None


def _is_recording(source: str) -> bool:
    """Return whether a source is a recording; other files have questions."""
    if source in POOLS or source.endswith(".gz"):
        return True
    try:
        with Path(source).open(encoding="utf-8") as file:
            return '"type": "recording"' in file.readline()
    except (OSError, ValueError) as error:
        names = ", ".join(POOLS)
        raise ConfigError(f"{source!r} is neither a file nor a public recording: {names}") from error


def _common(recorded: Sequence[str], config: Config | None) -> Sequence[str]:
    """Return the recorded workers that the config has, if it has two; else all."""
    known = [] if config is None else [name for name in recorded if name in config.worker_names]
    return known if len(known) > 1 else recorded


@dataclass(frozen=True, slots=True)
class _Asking:
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

    async def go() -> Summary:
        with GrowingFile(answers) as file:
            recorder = Recorder(
                file,
                workers,
                limits=limits,
                samples=asking.samples,
                grader=scoring,
                on_sample=lambda *_: forecaster.hear(),
            )
            forecaster = Forecaster(recorder, rows, len(workers), screen.note)
            forecaster.tell()
            return await recorder.record(rows)

    try:
        summary = anyio.run(go)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"the answers so far are in {answers}; repeat the command to ask for the others")
        raise
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


UNGRADED = "it has no score"
"""The reason why an answer is left out."""


def graded_answers(recordings: Recordings, workers: Sequence[str]) -> Recordings:
    """Return the graded answers of workers to the questions to which all of these workers have one.

    Raises:
        RouterInvalid: there are no such answers.
        RecordingInvalid: the recording lacks a worker.
    """
    left_out = recordings.left_out.copy()

    def graded() -> Sequence[Recording]:
        found = []
        for each in recordings:
            samples = tuple(sample for sample in each.samples if sample.score is not None)
            if samples:
                found.append(Recording(each.question, each.worker, samples))
            if len(samples) < len(each.samples):
                left_out[UNGRADED] += len(each.samples) - len(samples)
        return found

    having_scores = recordings.with_answers(graded(), left_out)
    if not len(having_scores):
        raise RouterInvalid(
            "no answer in the recording has a score: record with --grader, as in "
            "`podium evals record ask QUESTIONS --out FILE --grader number`"
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


def _given(path: Path) -> Arm:
    return GivenPlanner(f"planner of {path.stem}", load_config(find_config(path)).planner())


def _tuned(
    screen: Screen, recordings: Recordings, wish: Wish, planners: Sequence[Arm], processes: int | None
) -> Tuning:
    if processes is None and len(recordings) < FEW:
        processes = 1  # to start others takes longer than to ask
    with answer_bar(screen, 10 + len(planners)) as on_share:
        tuning = partial(tuned, planners=planners, processes=cores(processes), on_share=on_share)
        return anyio.run(tuning, recordings, wish)


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
