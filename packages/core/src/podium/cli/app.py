"""What can be typed: the commands for questions and plans, their arguments, and the help that explains them.

Bodies import what they need when they run, so that `--help` and `parse` stay quick.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from podium.cli.arguments import Approve, AsJson, ConfigPath, Labels, above_zero, load, names
from podium.cli.journal_commands import commands
from podium.cli.screen import EXIT_CODES, reporting
from podium_shadow.commands import shadow

DEMO_QUESTION = "What is 17.5% of 2,340, and what does an access list decide?"

app = typer.Typer(
    help="A conductor for teams of models: it reads a question, writes the plan, and directs the workers.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Question = Annotated[
    str | None, typer.Argument(help="What to ask; - reads it from stdin, as does leaving it out in a pipe.")
]
Preset = Literal["providers", "vllm", "fugu", "offline"]


def _show_version(asked: bool) -> None:  # noqa: FBT001 - what typer calls a callback with
    if asked:
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(f"podium {version('podium')}")
        raise typer.Exit


@app.callback()
def podium(
    *,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave."),
    ] = False,
) -> None:
    """Take the options that come before a command."""


@app.command(epilog=EXIT_CODES)
def parse(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The plan text; - for stdin.")],
    *,
    workers: Annotated[
        str, typer.Option(metavar="N|NAMES", help="How many workers there are, or their names: gpt,claude")
    ],
    max_steps: Annotated[int, typer.Option(min=1, help="Most steps the plan may have.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Say what a plan text is: its steps, or what is wrong with it and where."""
    from podium.cli.commands.parse import show_plan_text  # noqa: PLC0415

    with reporting() as screen:
        show_plan_text(screen, file, workers, max_steps=max_steps, as_json=as_json)


@app.command(epilog=EXIT_CODES)
def run(  # noqa: PLR0913 - one parameter per thing that can be typed
    question: Question = None,
    *,
    file: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Put a text file into the question; repeatable.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run a saved plan; its own question holds unless one is given."),
    ] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say on stderr what was decided and why.")
    ] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="Most steps the whole run may start.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Most plans, one after the other.")] = None,
    seconds: Annotated[
        float | None, typer.Option(callback=above_zero, help="Longest run, in seconds.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(callback=above_zero, metavar="USD", help="Most the whole run may cost.")
    ] = None,
    approve: Approve = False,
    run_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The run's id; the same id and question again are the same run."),
    ] = None,
    labels: Labels = "",
    no_journal: Annotated[bool, typer.Option("--no-journal", help="Record nothing of the run.")] = False,
) -> None:
    """Answer a question, or carry out a saved plan."""
    with reporting() as screen:
        from podium.cli.commands.run import Asked, run_question  # noqa: PLC0415

        asked = Asked(
            question=question,
            files=tuple(file or ()),
            plan=plan,
            run_id=run_id,
            labels=names(labels),
            approve=approve,
            journaled=not no_journal,
            steps=steps,
            rounds=rounds,
            seconds=seconds,
            cost=max_cost,
        )
        run_question(screen, load(config), asked, as_json=as_json, explain=explain)


@app.command(epilog=EXIT_CODES)
def plan(
    question: Question = None,
    *,
    labels: Labels = "",
    config: ConfigPath = None,
    as_json: AsJson = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw only the mermaid flowchart.")] = False,
) -> None:
    """Show how a question would be carried out, as a table and a flowchart, and run nothing.

    With --json the plan can be saved, and run by `podium run --plan`.
    """
    with reporting() as screen:
        from podium.cli.commands.plan import show_plan  # noqa: PLC0415
        from podium.cli.question import read_question  # noqa: PLC0415

        conductor = load(config).conductor(journaled=False)
        asked = read_question(question)
        show_plan(screen, conductor, asked, names(labels), as_json=as_json, mermaid=mermaid)


@app.command(epilog=EXIT_CODES)
def check(*, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Call each worker and the planner once, and show which of them work."""
    with reporting() as screen:
        from podium.cli.commands.check import show_check  # noqa: PLC0415

        show_check(screen, load(config), as_json=as_json)


@app.command(epilog=EXIT_CODES)
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("podium.toml"),
    *,
    preset: Annotated[
        Preset,
        typer.Option(
            help="providers: OpenAI, Anthropic and Gemini; vllm: one server of yours; "
            "fugu: a hosted conductor; offline: no model at all."
        ),
    ] = "providers",
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
) -> None:
    """Write a commented podium.toml to start from."""
    with reporting() as screen:
        from podium.cli.commands.init import write_preset  # noqa: PLC0415

        write_preset(screen, preset, path, force=force)


@app.command(epilog=EXIT_CODES)
def demo(
    question: Annotated[str, typer.Argument(help="What to ask.")] = DEMO_QUESTION,
    *,
    folder: Annotated[Path, typer.Option(help="Folder of text and Markdown to search.")] = Path("docs"),
) -> None:
    """Answer a compound question with no model, key or network."""
    with reporting() as screen:
        from podium.cli.commands.demo import show_demo  # noqa: PLC0415

        show_demo(screen, question, folder)


app.add_typer(commands)
app.add_typer(shadow, name="shadow", epilog=EXIT_CODES)
