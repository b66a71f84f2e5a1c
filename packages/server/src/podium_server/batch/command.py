"""`podium batch`: answer the questions of a file."""

import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import anyio
import typer

from podium.cli import ConfigPath, Screen, above_zero, reporting
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium_server.batch import parquet
from podium_server.batch.budget import Budget
from podium_server.batch.check import check as check_input
from podium_server.batch.input import Input
from podium_server.batch.output import Files, Kept
from podium_server.batch.progress import Progress, shown
from podium_server.batch.runner import Runner
from podium_server.models import Catalogue, make_catalogue
from podium_server.turn import Turns

batch = typer.Typer(add_completion=False, rich_markup_mode=None)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FAILED, _NOT_STARTED = 1, 3
_EXITS = (
    "Exit codes: 0 each line is ok; 1 a line has no complete answer, or the batch failed; 2 invalid command, "
    "config or file; 3 the budget is spent, and lines were not started; 130 interrupted."
)


@batch.command(name="batch", epilog=_EXITS)
def run(  # noqa: PLR0913 - one parameter for each argument and option
    questions: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, OpenAI's batch lines, or a .txt of questions.")
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The results: .jsonl or .parquet. Default: FILE.results.jsonl."),
    ] = None,
    failures: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the lines that are not ok here: .jsonl or .parquet."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the batch. Default: FILE without its ending."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model of lines that name none.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum lines at the same time.")] = 8,
    budget: Annotated[
        float | None,
        typer.Option(callback=above_zero, metavar="USD", help="Maximum cost of the whole batch, in USD."),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(callback=above_zero, metavar="USD", help="Cost limit of each run, in USD."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Continue the runs that earlier commands left not ok.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check each line, forecast the cost, and run nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show errors only.")] = False,
    config: ConfigPath = None,
) -> None:
    """Answer the questions of a file. The same command again continues after a kill."""
    with reporting() as screen:
        asked = _Asked(
            questions=questions,
            out=out or questions.with_suffix(".results.jsonl"),
            failures=failures,
            name=_name(name, questions),
            model=model,
            concurrency=concurrency,
            budget=budget,
            max_cost=max_cost,
            retries=retry_failed,
            quiet=quiet,
        )
        _run(screen, asked, config, only_check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The arguments of the command."""

    questions: Path
    out: Path
    failures: Path | None
    name: str
    model: str | None
    concurrency: int
    budget: float | None
    max_cost: float | None
    retries: bool
    quiet: bool

    @property
    def targets(self) -> list[Path]:
        """The files that the user named, for the results and the failures."""
        return [each for each in (self.out, self.failures) if each is not None]


def _run(screen: Screen, asked: _Asked, path: Path | None, *, only_check: bool) -> None:
    """Run or check a batch, and exit with its exit code."""
    config = load_config(find_config(path))
    journal = None if config.is_hosted else config.journal()
    if journal is None:
        why = "a hosted conductor has none" if config.is_hosted else "remove `off` in [journal]"
        raise ConfigError(f"{config.path}: podium batch needs a journal: {why}")
    catalogue = make_catalogue(config, journal)
    _check_files(asked)
    _check_prices(catalogue, asked)
    lines = Input(asked.questions, asked.name, catalogue, asked.model)
    if only_check:
        _check(screen, lines, journal, asked.max_cost)
        return
    kept = Kept(asked.name, asked.retries)
    failures = None if asked.failures is None else _lines_of(asked.failures)
    budget = Budget(asked.budget, asked.max_cost, journal)
    with Files(_lines_of(asked.out), failures, kept, lines.form) as files:
        budget.spent, budget.unknown = kept.cost, kept.unknown
        note = _nothing if asked.quiet else screen.note
        progress = Progress(lines.count, Counter(kept.statuses), budget, note)
        turns = Turns(catalogue, budget, journal)
        runner = Runner(
            turns=turns, journal=journal, budget=budget, kept=kept, files=files, progress=progress
        )
        try:
            anyio.run(_execute, runner, catalogue, lines, asked, screen)
        except (KeyboardInterrupt, Exception) as error:
            error.add_note("the same command continues the batch")
            raise
    _write_parquet(asked)
    if not asked.quiet:
        screen.note(f"podium: {progress.summary()}")
        screen.note(f"podium: the results are in {asked.out}")
    _exit(screen, progress)


async def _execute(runner: Runner, catalogue: Catalogue, lines: Input, asked: _Asked, screen: Screen) -> None:
    assert isinstance(runner.journal, SqlJournal)
    view = nullcontext() if asked.quiet else shown(runner.progress, screen)
    async with runner.journal, catalogue.opened(), view:
        await runner.run(lines, asked.concurrency)


def _exit(screen: Screen, progress: Progress) -> None:
    """Exit with the code of the batch, and say how to continue."""
    if left := progress.counts["not_started"]:
        screen.note(f"podium: {left:,} lines were not started: raise --budget, and repeat the command")
        raise typer.Exit(_NOT_STARTED)
    if progress.unfinished:
        screen.note("podium: some lines are not ok: mend them, or repeat the command with --retry-failed")
        raise typer.Exit(_FAILED)


def _check(screen: Screen, lines: Input, journal: SqlJournal, run_cost: float | None) -> None:
    """Show what is wrong with the lines; exit with 1 if a line is wrong."""
    is_good = True
    for ok, told in check_input(lines, journal, run_cost):
        screen.result(f"{'✓' if ok else '✗'} {told}")
        is_good = is_good and ok
    if not is_good:
        raise typer.Exit(_FAILED)


def _name(named: str | None, questions: Path) -> str:
    name = named or re.sub(r"[^A-Za-z0-9._-]+", "-", questions.stem).strip("._-") or "batch"
    if not _NAME.fullmatch(name):
        form = "up to 100 letters, digits, `.`, `_` and `-`, with a letter or digit first"
        raise ConfigError(f"--name {name!r:.80} is invalid: write {form}")
    return name


def _lines_of(target: Path) -> Path:
    """Return the file to which lines are appended: beside a Parquet file, which cannot be continued."""
    return target.with_suffix(".jsonl") if target.suffix == ".parquet" else target


def _check_files(asked: _Asked) -> None:
    """Raise `ConfigError` if two files are the same, or if pyarrow is missing."""
    files = [asked.questions, *(_lines_of(target) for target in asked.targets)]
    if len({file.resolve() for file in files}) < len(files):
        told = "the input, the results and the failures need different files (a .parquet also uses .jsonl)"
        raise ConfigError(f"{told}: choose another --out or --failures")
    if any(target.suffix == ".parquet" for target in asked.targets):
        parquet.check_installed()


def _check_prices(catalogue: Catalogue, asked: _Asked) -> None:
    """Raise `ConfigError` if the budget cannot be kept: a run without a cost limit, or an unknown price."""
    for model in catalogue:
        conductor = model.conductor
        assert isinstance(conductor, Conductor)  # a hosted conductor has no journal
        limits, unpriced = conductor.limits, ", ".join(conductor.unpriced)
        if asked.budget is not None and asked.max_cost is None and limits.cost is None:
            told = f"--budget needs a cost limit of each run, and the model {model.name} has none"
            raise ConfigError(f"{told}: add --max-cost, or set cost in [limits]")
        if asked.max_cost is not None and limits.unpriced is None and unpriced:
            told = f"--max-cost needs prices, and the price of {unpriced} is unknown"
            raise ConfigError(f"{told}: set `price`, or `unpriced` in [limits]")


def _write_parquet(asked: _Asked) -> None:
    if asked.out.suffix == ".parquet":
        parquet.write_results(_lines_of(asked.out), asked.out)
    if asked.failures is not None and asked.failures.suffix == ".parquet":
        parquet.write_failures(_lines_of(asked.failures), asked.failures)


def _nothing(text: str) -> None:
    del text
