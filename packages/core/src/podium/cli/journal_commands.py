"""What can be typed about recorded runs: commands, their arguments, and the help that explains them.

Bodies import what they need when they run, as in `app`.
"""

from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podium.cli.arguments import (
    Approve,
    AsJson,
    ConfigPath,
    Edit,
    Edits,
    NewPlan,
    Run,
    Step,
    Subtask,
    Worker,
    journal_of,
    load,
    shared_cache_of,
    span,
)
from podium.cli.screen import EXIT_CODES, reporting
from podium.errors import ConfigError

if TYPE_CHECKING:
    from podium.cli.plan_files import PlanChange

commands = typer.Typer()
runs = typer.Typer(rich_markup_mode=None)
cache = typer.Typer(rich_markup_mode=None)
audit = typer.Typer(rich_markup_mode=None)
commands.add_typer(runs, name="runs", epilog=EXIT_CODES)
commands.add_typer(cache, name="cache", epilog=EXIT_CODES)
commands.add_typer(audit, name="audit", epilog=EXIT_CODES)


@runs.callback(invoke_without_command=True)
def list_(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, the newest first.")] = 20,
    nested: Annotated[bool, typer.Option("--nested", help="Show runs nested in others too.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """List the runs that are recorded, or forget some."""
    if context.invoked_subcommand is not None:
        return
    with reporting() as screen:
        from podium.cli.commands.runs import list_runs  # noqa: PLC0415

        list_runs(screen, journal_of(config), limit=limit, nested=nested, as_json=as_json)


@runs.command(epilog=EXIT_CODES)
def delete(run: Run, *, config: ConfigPath = None) -> None:
    """Forget a run, with all that are nested in it."""
    with reporting() as screen:
        from podium.cli.commands.runs import delete_run  # noqa: PLC0415

        delete_run(screen, journal_of(config), run)


@runs.command(epilog=EXIT_CODES)
def prune(
    *,
    older_than: Annotated[
        float, typer.Option(parser=span, metavar="SPAN", help="How long ago they ended: 12h, 30d, 8w.")
    ],
    config: ConfigPath = None,
) -> None:
    """Forget the runs that ended long ago, and the answers that were kept for use again then."""
    with reporting() as screen:
        from podium.cli.commands.runs import prune_runs  # noqa: PLC0415

        prune_runs(screen, journal_of(config), shared_cache_of(config), older_than)


@cache.callback()
def cached() -> None:
    """Forget answers that are kept for use again."""


@cache.command(epilog=EXIT_CODES)
def clear(*, config: ConfigPath = None) -> None:
    """Forget all answers that are kept beside the journal, by `cache = "shared"`."""
    with reporting() as screen:
        from podium.cli.commands.runs import clear_cache  # noqa: PLC0415

        clear_cache(screen, shared_cache_of(config))


@commands.command(epilog=EXIT_CODES)
def show(
    run: Run,
    *,
    events: Annotated[
        bool, typer.Option("--events", help="Write all that was recorded, one JSON object per line.")
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run did: plans, steps, calls, costs, and why."""
    with reporting() as screen:
        from podium.cli.commands.show import show_run  # noqa: PLC0415

        show_run(screen, journal_of(config), run, as_json=as_json, events=events)


@commands.command(epilog=EXIT_CODES)
def diff(
    first: Run,
    second: Annotated[str, typer.Argument(metavar="RUN")],
    *,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show in what two runs differ: plans, outputs, costs."""
    with reporting() as screen:
        from podium.cli.commands.diff import show_diff  # noqa: PLC0415

        show_diff(screen, journal_of(config), first, second, as_json=as_json)


@commands.command(epilog=EXIT_CODES)
def resume(  # noqa: PLR0913 - one parameter per thing that can be typed, as below
    run: Run,
    *,
    plan: NewPlan = None,
    edits: Edits = None,
    edit: Edit = False,
    step: Step = None,
    subtask: Subtask = None,
    worker: Worker = None,
    approve: Approve = False,
    force: Annotated[
        bool, typer.Option("--force", help="Take it up even if it was taken up too often.")
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that broke off, failed, or waited; nothing delivered is paid for again."""
    with reporting() as screen:
        from podium.cli.commands.resume import resume_run  # noqa: PLC0415

        change = _change(plan, edits, step, subtask, worker, edit=edit)
        resume_run(screen, load(config), run, change, approve=approve, force=force, as_json=as_json)


@commands.command(epilog=EXIT_CODES)
def approve(  # noqa: PLR0913
    run: Run,
    *,
    plan: NewPlan = None,
    edits: Edits = None,
    edit: Edit = False,
    step: Step = None,
    subtask: Subtask = None,
    worker: Worker = None,
    by: Annotated[str, typer.Option(metavar="NAME", default_factory=getuser, help="Who approves.")],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why.")] = "",
    config: ConfigPath = None,
) -> None:
    """Approve the plan that a run waits with, as it is or changed."""
    with reporting() as screen:
        from podium.cli.commands.resume import decide_on_run  # noqa: PLC0415

        change = _change(plan, edits, step, subtask, worker, edit=edit)
        decide_on_run(screen, load(config), run, change, approved=True, by=by, why=why)


@commands.command(epilog=EXIT_CODES)
def refuse(
    run: Run,
    *,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why.")],
    by: Annotated[str, typer.Option(metavar="NAME", default_factory=getuser, help="Who refuses.")],
    config: ConfigPath = None,
) -> None:
    """Refuse the plan that a run waits with."""
    with reporting() as screen:
        from podium.cli.commands.resume import decide_on_run  # noqa: PLC0415

        decide_on_run(screen, load(config), run, _change(), approved=False, by=by, why=why)


@commands.command(epilog=EXIT_CODES)
def replay(  # noqa: PLR0913
    run: Run,
    *,
    plan: NewPlan = None,
    edits: Edits = None,
    edit: Edit = False,
    step: Step = None,
    subtask: Subtask = None,
    worker: Worker = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Do a run over with what was recorded, for nothing; or with its plan changed.

    Only steps that are then given something else than they were are called, and paid for.
    """
    with reporting() as screen:
        from podium.cli.commands.resume import replay_run  # noqa: PLC0415

        change = _change(plan, edits, step, subtask, worker, edit=edit)
        replay_run(screen, load(config), run, change, as_json=as_json)


@audit.callback()
def audited() -> None:
    """Verify what is recorded, or copy it."""


@audit.command(epilog=EXIT_CODES)
def verify(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN|FILE", help="A run, or an exported file; else all runs.")
    ] = None,
    *,
    config: ConfigPath = None,
) -> None:
    """Say whether what is recorded is what was written."""
    with reporting() as screen:
        from podium.cli.commands.audit import verify_file, verify_journal  # noqa: PLC0415

        if run is not None and Path(run).is_file():
            verify_file(screen, Path(run))
        else:
            verify_journal(screen, journal_of(config), run)


@audit.command(epilog=EXIT_CODES)
def export(
    run: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="The runs.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Export all runs.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The new file; else stdout.")
    ] = None,
    config: ConfigPath = None,
) -> None:
    """Copy runs as JSON lines, which `verify` takes."""
    with reporting() as screen:
        from podium.cli.commands.audit import export_runs  # noqa: PLC0415

        if every == bool(run):
            raise ConfigError("name the runs to export, or give --all")
        export_runs(screen, journal_of(config), run or (), out)


def _change(
    plan: Path | None = None,
    edits: Path | None = None,
    step: int | None = None,
    subtask: str | None = None,
    worker: str | None = None,
    *,
    edit: bool = False,
) -> "PlanChange":
    from podium.cli.plan_files import PlanChange  # noqa: PLC0415

    return PlanChange(file=plan, edits=edits, edit=edit, step=step, subtask=subtask, worker=worker)
