"""What can be typed about shadows: commands, their arguments, and the help that explains them.

Bodies import what they need when they run, as in `app`.
"""

from typing import Annotated

import typer

from podium.cli.arguments import AsJson, ConfigPath, journal_of, span
from podium.cli.screen import EXIT_CODES, reporting

shadow = typer.Typer(rich_markup_mode=None)


@shadow.callback()
def shadows() -> None:
    """Compare candidates with what they ran beside, or forget what was recorded of them."""


@shadow.command(epilog=EXIT_CODES)
def report(  # noqa: PLR0913 - one parameter per thing that can be typed
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The shadow; else each.")] = None,
    *,
    since: Annotated[
        float | None,
        typer.Option(parser=span, metavar="SPAN", help="Only what was recorded since: 12h, 30d, 8w ago."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many pairs at most, the latest.")] = 10_000,
    judge: Annotated[
        str | None,
        typer.Option(metavar="WORKER", help="Have this worker of the config judge answers that differ."),
    ] = None,
    judge_calls: Annotated[int, typer.Option(min=1, help="How many calls the judge may be given.")] = 100,
    scorer: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Score each answer: a function of question and answer."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Compare answers, latency, calls, tokens and cost of a candidate with its primary's."""
    with reporting() as screen:
        from podium_shadow.report_table import Compare, show_report  # noqa: PLC0415

        compare = Compare(
            name=name,
            since=since,
            limit=limit,
            judge=judge,
            judge_calls=judge_calls,
            scorer=scorer,
            confidence=confidence,
            seed=seed,
        )
        show_report(screen, journal_of(config), config, compare, as_json=as_json)


@shadow.command(epilog=EXIT_CODES)
def prune(
    *,
    older_than: Annotated[
        float, typer.Option(parser=span, metavar="SPAN", help="How long ago: 12h, 30d, 8w.")
    ],
    config: ConfigPath = None,
) -> None:
    """Forget the pairs that were recorded long ago."""
    with reporting() as screen:
        from podium_shadow.report_table import prune_pairs  # noqa: PLC0415

        prune_pairs(screen, journal_of(config), older_than)
