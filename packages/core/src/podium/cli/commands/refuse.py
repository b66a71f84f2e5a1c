"""`podium refuse`: refuse the plan of a run that waits for approval."""

from getpass import getuser
from typing import Annotated

import typer

from podium.cli.arguments import ConfigPath, Run
from podium.cli.recorded_run import find_recorded_run
from podium.cli.screen import reporting


def refuse(
    run: Run,
    *,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the refusal.")],
    by: Annotated[
        str,
        typer.Option(
            metavar="NAME", default_factory=getuser, help="Name recorded as the person who refuses."
        ),
    ],
    config: ConfigPath = None,
) -> None:
    """Refuse the plan of a run that waits for approval."""
    with reporting() as screen:
        recorded = find_recorded_run(config, run)
        recorded.decide(None, approved=False, by=by, why=why)
        recorded.report_decision(screen, "refused")
