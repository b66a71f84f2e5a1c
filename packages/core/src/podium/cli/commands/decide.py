"""`podium decide`: decide on what a run waits for, or on the end of an action."""

from functools import partial
from getpass import getuser
from shlex import quote
from typing import Annotated, Literal

import anyio
import typer

from podium.cli.arguments import (
    ConfigPath,
    Edits,
    InEditor,
    NewPlan,
    PlanChange,
    Run,
    Step,
    Subtask,
    Worker,
    command,
)
from podium.cli.lookup import find_recorded_run, short_id
from podium.cli.screen import reporting
from podium.errors import ConfigError

Verdict = Literal["approve", "refuse", "done", "not-done"]


def decide(  # noqa: PLR0913 - one parameter for each argument and option
    run: Run,
    verdict: Annotated[
        Verdict,
        typer.Argument(
            help="`approve` or `refuse` what waits; `done` or `not-done` for the end of an action."
        ),
    ],
    *,
    action: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The action of step N. Default: all that waits.")
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=1, metavar="R", help="The round of the action.")
    ] = None,
    plan: NewPlan = None,
    edits: Edits = None,
    edit: InEditor = False,
    step: Step = None,
    subtask: Subtask = None,
    worker: Worker = None,
    by: Annotated[
        str, typer.Option(metavar="NAME", default_factory=getuser, help="Name recorded with the decision.")
    ],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Reason; a refusal needs one.")] = "",
    config: ConfigPath = None,
) -> None:
    """Approve or refuse what a run waits for, or say whether an action happened.

    A run does not carry out an action whose end is unknown again. `done` takes it as carried out; after
    `not-done`, `podium resume` carries it out.
    """
    with reporting() as screen:
        change = PlanChange(file=plan, edits=edits, edit=edit, step=step, subtask=subtask, worker=worker)
        _check(verdict, action, why, is_changed=change != PlanChange())
        recorded = find_recorded_run(config, run)
        facts = (
            {"approved": verdict == "approve", "plan": recorded.changed(change)}
            if verdict in ("approve", "refuse")
            else {"done": verdict == "done", "round": round_}
        )
        decided = partial(recorded.conductor.decide, recorded.run_id, action=action, by=by, why=why, **facts)
        anyio.run(decided)
        resume = command(f"resume {quote(short_id(recorded.run_id))}", config)
        what = "" if action is None else f", step {action}"
        screen.note(f"podium: recorded {verdict} for run {recorded.run_id}{what}; continue with `{resume}`")


def _check(verdict: Verdict, action: int | None, why: str, *, is_changed: bool) -> None:
    """Raise `ConfigError` for options that do not fit the verdict."""
    if verdict == "refuse" and not why:
        raise ConfigError("a refusal needs a reason: add --why TEXT")
    if verdict in ("done", "not-done") and action is None:
        raise ConfigError(f"{verdict} is about one action: add --action N, with the number of its step")
    if is_changed and (verdict != "approve" or action is not None):
        raise ConfigError("only an approved plan can be changed: leave out the options that change the plan")
