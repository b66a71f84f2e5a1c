"""`podium batch`: answer the questions of a file."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import anyio
import typer

from podium.cli.arguments import ConfigPath, above_zero, check_journal
from podium.cli.screen import Screen, counted, reporting
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium_server.batch.asked import Asked, batch_name, results_of
from podium_server.batch.check import check as check_input
from podium_server.batch.input import Input
from podium_server.batch.kept import Budget, Kept
from podium_server.batch.output import Files
from podium_server.batch.runner import LineRunner, Progress, Runner, RunsLines, shown
from podium_server.models import make_catalogue

batch = typer.Typer(add_completion=False, rich_markup_mode=None)

_FAILED, _NOT_STARTED = 1, 3
_REMEDIES: Mapping[Sequence[str], str] = {
    ("invalid",): "correct the input, and repeat the command",
    ("failed", "partial"): "repeat the command with --retry-failed, which repeats failed calls",
    ("waiting",): "approve the plans with `podium decide`, and repeat the command",
    ("not_started",): "raise --budget, and repeat the command",
}
"""How to continue, by the statuses of lines."""
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
        typer.Option(metavar="FILE", help="The results, as JSON lines. Default: FILE.results.jsonl."),
    ] = None,
    failures: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the lines that are not ok, as JSON lines."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the batch. Default: FILE without its ending."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model of lines that name none.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum lines at the same time.")] = 8,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run the lines on a Ray cluster: auto, local, ray://HOST:10001."
        ),
    ] = None,
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
        asked = Asked(
            questions=questions,
            out=out or results_of(questions),
            failures=failures,
            name=batch_name(name, questions),
            model=model,
            concurrency=concurrency,
            ray=ray,
            budget=budget,
            max_cost=max_cost,
            retries=retry_failed,
            quiet=quiet,
        )
        _run(screen, asked, config, only_check=check)


def _run(screen: Screen, asked: Asked, path: Path | None, *, only_check: bool) -> None:
    """Run or check a batch, and exit with its exit code."""
    config = load_config(find_config(path))
    journal = config.journal()
    if journal is None:
        raise ConfigError(f"{config.path}: podium batch needs a journal: remove `off` in [journal]")
    check_journal(screen, journal)  # before MCP servers start
    catalogue = make_catalogue(config, journal)
    asked.check_files()
    asked.check_prices(catalogue)
    lines = Input(asked.questions, asked.name, catalogue, asked.model)
    kept = Kept(asked.name, asked.retries)
    if only_check:
        kept.read(asked.out)
        _check(screen, lines, kept, journal, asked.max_cost)
        return
    budget = Budget(asked.budget)
    with Files(asked.out, asked.failures, kept, lines.form) as files:
        budget.spent, budget.unknown = kept.cost, kept.unknown
        note = _nothing if asked.quiet else screen.note
        if lines.repeated:
            note(f"podium: warning: {lines.repeated_told}")
        progress = Progress(lines.count, budget, note)
        on_ray = None if asked.ray is None else _on_ray(asked, config, note)
        runner = Runner(
            lines=on_ray or LineRunner(catalogue, journal, asked.max_cost),
            journal=journal,
            budget=budget,
            run_cost=asked.max_cost,
            kept=kept,
            files=files,
            progress=progress,
        )
        try:
            anyio.run(_execute, runner, lines, asked, screen)
        except (KeyboardInterrupt, Exception) as error:
            error.add_note("the same command continues the batch")
            raise
    if not asked.quiet:
        screen.note(f"podium: {progress.summary()}")
        screen.note(f"podium: the results are in {asked.out}")
    _exit(screen, progress)


def _on_ray(asked: Asked, config: Config, note: Callable[[str], None]) -> RunsLines:
    from podium_server.batch.on_ray import OnRay  # noqa: PLC0415 - an extra

    return OnRay(asked, config.path, note)


async def _execute(runner: Runner, lines: Input, asked: Asked, screen: Screen) -> None:
    view = nullcontext() if asked.quiet else shown(runner.progress, screen)
    async with runner.journal, runner.lines.opened(), view:
        await runner.run(lines, asked.concurrency)


def _exit(screen: Screen, progress: Progress) -> None:
    """Exit with the code of the batch, and say how to continue."""
    for statuses, remedy in _REMEDIES.items():
        if count := sum(progress.counts[status] for status in statuses):
            named = " or ".join(each for each in statuses if progress.counts[each]).replace("_", " ")
            screen.note(f"podium: {counted(count, 'line')} {named}: {remedy}")
    if progress.counts["not_started"]:
        raise typer.Exit(_NOT_STARTED)
    if progress.unfinished:
        raise typer.Exit(_FAILED)


def _check(screen: Screen, lines: Input, kept: Kept, journal: SqlJournal, run_cost: float | None) -> None:
    """Show what is wrong with the lines; exit with 1 if a line is wrong."""
    is_good = True
    for mark, told in check_input(lines, kept, journal, run_cost):
        screen.result(f"{mark} {told}")
        is_good = is_good and mark != "✗"
    if not is_good:
        raise typer.Exit(_FAILED)


def _nothing(text: str) -> None:
    del text
