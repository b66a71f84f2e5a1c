"""`podium approve`: approve the plan of a run that waits for approval."""

from getpass import getuser
from typing import Annotated

import typer

from podium.cli.arguments import ConfigPath, Edit, Edits, NewPlan, Run, Step, Subtask, Worker
from podium.cli.plan_files import PlanChange
from podium.cli.recorded_run import find_recorded_run
from podium.cli.screen import reporting


def approve(  # noqa: PLR0913 - one parameter for each argument and option
    run: Run,
    *,
    plan: NewPlan = None,
    edits: Edits = None,
    edit: Edit = False,
    step: Step = None,
    subtask: Subtask = None,
    worker: Worker = None,
    by: Annotated[
        str, typer.Option(metavar="NAME", default_factory=getuser, help="Name recorded as the approver.")
    ],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the approval.")] = "",
    config: ConfigPath = None,
) -> None:
    """Approve the plan of a run that waits for approval, changed or unchanged."""
    with reporting() as screen:
        recorded = find_recorded_run(config, run)
        change = PlanChange(file=plan, edits=edits, edit=edit, step=step, subtask=subtask, worker=worker)
        recorded.decide(recorded.changed(change), approved=True, by=by, why=why)
        recorded.report_decision(screen, "approved")
