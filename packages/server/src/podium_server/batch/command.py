"""`podium batch`: checks or answers the questions of a file."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Literal

import anyio
import typer

from podium.budget import Limits, Spend
from podium.cli.arguments import ConfigPath, above_zero, check_journal
from podium.cli.screen import Screen, counted, money, reporting
from podium.conductor import Conductor
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium.planners import PlanRequest
from podium.types import Message, Sampling
from podium.workers import Request, Worker
from podium_server.batch.input import BadLine, Input, Line
from podium_server.batch.results import Files, Kept
from podium_server.batch.runner import Budget, LineRunner, Progress, Runner, RunsLines, done_runs, shown
from podium_server.models import Catalogue, make_catalogue

_ENDINGS = (".jsonl", ".ndjson")
"""Endings of results and failures."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of the command."""

    questions: Path
    out: Path
    failures: Path | None
    name: str
    model: str | None
    concurrency: int
    ray: str | None
    budget: float | None
    max_cost: float | None
    retries: bool
    quiet: bool

    def check_files(self) -> None:
        """Raise `ConfigError` if two files are the same, or an ending is unknown."""
        targets = [each for each in (self.out, self.failures) if each is not None]
        for target in targets:
            if target.suffix not in _ENDINGS:
                told = f"{target} has no ending of a file that podium batch writes"
                raise ConfigError(f"{told}: choose a name with {' or '.join(_ENDINGS)}")
        files = [self.questions, *targets]
        if len({file.resolve() for file in files}) < len(files):
            told = "the input, the results and the failures need different files"
            raise ConfigError(f"{told}: choose another --out or --failures")

    def check_prices(self, catalogue: Catalogue) -> None:
        """Raise `ConfigError` if the budget cannot be kept: a run without a limit, or an unknown price."""
        for model in catalogue:
            conductor = model.conductor
            limits, unpriced = conductor.limits, ", ".join(conductor.unpriced)
            if self.budget is not None and self.max_cost is None and limits.cost is None:
                told = f"--budget needs a cost limit of each run, and the model {model.name} has none"
                raise ConfigError(f"{told}: add --max-cost, or set cost in [limits]")
            if self.max_cost is not None and limits.unpriced is None and unpriced:
                told = f"--max-cost needs prices, and the price of {unpriced} is unknown"
                raise ConfigError(f"{told}: set `price`, or `unpriced` in [limits]")


def batch_name(named: str | None, questions: Path) -> str:
    """Return the name of the batch: the given name, or the name of the input without its ending."""
    name = named or re.sub(r"[^A-Za-z0-9._-]+", "-", questions.stem).strip("._-") or "batch"
    if not _NAME.fullmatch(name):
        form = "up to 100 letters, digits, `.`, `_` and `-`, with a letter or digit first"
        raise ConfigError(f"--name {name!r:.80} is invalid: write {form}")
    return name


def results_of(questions: Path) -> Path:
    """Return the default file of the results."""
    if questions.is_dir():
        raise ConfigError(f"{questions} cannot be read: it is a folder")
    return questions.with_suffix(".results.jsonl")


batch = typer.Typer(add_completion=False, rich_markup_mode=None)

_FAILED, _NOT_STARTED = 1, 3
_REMEDIES: Mapping[Sequence[str], str] = {
    ("invalid",): "correct the input, and repeat the command",
    ("failed", "partial"): (
        "repeat the command with --retry-failed, which repeats failed calls; "
        "if a `problem` names a command, run that command first"
    ),
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
    with Files.opened(asked.out, asked.failures, kept, lines.form) as files:
        budget.spent, budget.unknown = kept.cost, kept.unknown
        note = _nothing if asked.quiet else screen.note
        if lines.repeated:
            note(f"podium: warning: {lines.repeated_told}")
        progress = Progress(lines.count, budget, note)
        runner = Runner(
            lines=_lines(asked, config, catalogue, journal, note),
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


def _lines(
    asked: Asked, config: Config, catalogue: Catalogue, journal: SqlJournal, note: Callable[[str], None]
) -> RunsLines:
    if asked.ray is None:
        return LineRunner(catalogue, journal, asked.max_cost)
    from podium_server.batch.on_ray import OnRay  # noqa: PLC0415 - an extra

    return OnRay(asked.ray, asked.name, config.path, asked.max_cost, asked.concurrency, note)


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


def _nothing(text: str) -> None:
    del text


def _check(screen: Screen, lines: Input, kept: Kept, journal: SqlJournal, run_cost: float | None) -> None:
    """Show what is wrong with the lines; exit with 1 if a line is wrong."""
    is_good = True
    for mark, told in check_lines(lines, kept, journal, run_cost):
        screen.result(f"{mark} {told}")
        is_good = is_good and mark != "✗"
    if not is_good:
        raise typer.Exit(_FAILED)


Mark = Literal["✓", "!", "✗"]
"""Whether a finding is good, a warning, or an error."""
_SHORT = (Message("user", "?"),)
"""If a call does not fit the limits with this question either, the line is not the reason."""
_LEAST = 64
"""Tokens of the shortest answer that a run reserves."""
_LIMITED = ("cost", "input_tokens", "output_tokens")


def too_long(line: Line, run_cost: float | None) -> tuple[Mark, str] | None:
    """Return what is known to exceed the limits of the run; `None` if nothing is.

    It is an error if no worker of the model can be called with the question. It is a warning if the planner
    cannot be called, because a simple question and a fallback planner need no such call, or if some workers
    cannot. The prompts of calls have more text than the question, so a run may exceed its limits without a
    finding.
    """
    conductor = line.model.conductor
    limits = conductor.limits if run_cost is None else replace(conductor.limits, cost=run_cost)
    messages = tuple(line.request.conversation_for(line.model))
    calls = {}
    if conductor.show_question:
        calls = {f"a call of {each.card.name}": partial(_of_worker, each, limits) for each in conductor.pool}
    mark: Mark = "✗" if calls and all(call(messages) for call in calls.values()) else "!"
    if line.given.get("plan") is None:
        calls["planning"] = partial(_of_planner, conductor, limits)
    over = {name: call(messages) for name, call in calls.items() if not call(_SHORT)}
    told = "; ".join(f"{name} {excess}" for name, excess in over.items() if excess)
    if not told:
        return None
    length = sum(len(each.text) for each in messages)
    return mark, f"line {line.number}: the question has {length:,} characters: {told}"


def too_low(conductor: Conductor, run_cost: float) -> str:
    """Return why a cost limit allows no run of a conductor, in words; empty if it may allow one.

    No run is possible if the limit is less than a short question and a short answer of each worker cost.
    """
    limits, short = replace(conductor.limits, cost=run_cost), Sampling(max_tokens=_LEAST)
    request = Request(messages=_SHORT, sampling=short)
    excesses = [_excess(each.worst_case(request, _LEAST), limits) for each in conductor.pool]
    return "" if not all(excesses) else f"each call of a worker {excesses[0]}"


def _of_worker(worker: Worker, limits: Limits, messages: tuple[Message, ...]) -> str:
    """Return how a call of a worker exceeds the limits; empty if it does not."""
    return _excess(worker.worst_case(Request(messages=messages), limits.answer_tokens), limits)


def _of_planner(conductor: Conductor, limits: Limits, messages: tuple[Message, ...]) -> str:
    """Return how the call of the planner exceeds the limits; empty if it does not."""
    request = PlanRequest(query=messages, cards=conductor.pool.cards, max_steps=limits.plan_steps)
    return _excess(conductor.planner.worst_case(request, limits.answer_tokens), limits)


def _excess(worst: Spend | None, limits: Limits) -> str:
    """Return which limit of the run a call may exceed; empty if none."""
    if worst is None:  # a nested conductor reserves its own calls
        return ""
    for name in _LIMITED:
        need, most = getattr(worst, name), getattr(limits, name)
        if need is not None and most is not None and need > most:
            if name == "cost":
                return f"may cost {money(need)}, and the limit of a run is {money(most)}"
            return f"may need {need:,} of {name}, and the limit of a run is {most:,}"
    return ""


_MOST_RUNS = 200
"""How many recorded runs a forecast uses."""
_FEWEST_RUNS = 5


def check_lines(
    lines: Input, kept: Kept, journal: SqlJournal, run_cost: float | None
) -> Iterator[tuple[Mark, str]]:
    """Yield each finding: its mark, and a text."""
    lines_of, runs_of = Counter[str](), Counter[str]()
    limits: dict[str, float | None] = {}
    recorded, costs = anyio.run(_recorded, journal, kept)
    if lines.repeated:
        yield "!", lines.repeated_told
    for each in lines:
        is_done = kept.status_of(each) is not None
        line = each if is_done else kept.checked(each)
        if isinstance(line, BadLine):
            yield "✗", f"line {line.number}: {line.error}"
            continue
        name, conductor = line.model.name, line.model.conductor
        lines_of[name] += 1
        if is_done or line.run_id in recorded:
            continue
        runs_of[name] += 1
        limits[name] = limit = run_cost or conductor.limits.cost
        if limit is not None and runs_of[name] == 1 and (told := too_low(conductor, limit)):
            yield "✗", f"no line for the model {name} can be answered: {told}"
        if finding := too_long(line, run_cost):
            yield finding
    for name, count in lines_of.items():
        yield "✓", f"{counted(count, 'line')} for the model {name}"
    total = runs_of.total()
    if done := lines_of.total() - total:
        yield "✓", f"{counted(done, 'line')} already finished: no call is made"
    if None in limits.values():
        yield "✓", "maximum cost: unknown, because the runs have no cost limit (--max-cost)"
    else:
        most = sum(count * (limits[name] or 0.0) for name, count in runs_of.items())
        yield "✓", f"maximum cost: {money(most)}, the sum of the cost limits of {counted(total, 'run')}"
    yield "✓", f"expected cost: {_expected(costs, total)}"


async def _recorded(journal: SqlJournal, kept: Kept) -> tuple[Collection[str], Sequence[float]]:
    """Return the recorded runs that are not run again, and the costs of the latest runs of the journal."""
    rows = await journal.runs(limit=_MOST_RUNS)
    costs = [row.cost for row in rows if row.cost is not None and row.state == "ok"]
    return await done_runs(journal, kept), costs


def _expected(costs: Sequence[float], count: int) -> str:
    """Return the expected cost of some runs, from the costs of recorded runs."""
    if not count:
        return f"{money(0.0)}, because no run is left"
    if len(costs) < _FEWEST_RUNS:
        return f"unknown, because the journal has fewer than {_FEWEST_RUNS} runs of known cost"
    deciles = quantiles(costs, n=10)
    low, high = (max(each, 0.0) * count for each in (deciles[0], deciles[-1]))
    return f"{money(low)} to {money(high)}, if the runs cost as much as the {len(costs)} latest recorded runs"
