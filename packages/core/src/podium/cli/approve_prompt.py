"""Shows a plan at the terminal and asks whether it may run."""

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio.to_thread

from podium.cli import drawing
from podium.cli.plan_files import edited
from podium.cli.screen import Screen
from podium.conductor import Conductor
from podium.errors import ConfigError, PodiumError
from podium.policy import ApprovalRequest, Approve
from podium.types.plan import Plan

if TYPE_CHECKING:
    from podium.cli.live import View

_QUESTION = "Run this plan? [y]es, [N]o, [e]dit, [?] help: "
_ACTION = "Carry out this action? [y]es, [N]o: "
_HELP = """\
  y, yes   run the plan as shown
  n, no    refuse the plan: the run ends without calling a step (default: the Enter key)
  e, edit  change the plan in $VISUAL or $EDITOR, then answer again
  ?        show this help
  Ctrl-C   leave: the run waits for approval, and `podium resume` continues it"""
_ANSWERS = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "": "no", "e": "edit", "edit": "edit"}


def at_the_terminal(screen: Screen, view: "View | None", conductor: Conductor) -> Approve:
    """Return an approver that asks the person at the terminal.

    Args:
        screen: shows the plan.
        view: the live view of the run, which is hidden during the question; `None` if there is none.
        conductor: forecasts the cost of a plan.

    Raises:
        ConfigError: stdin, stdout or stderr is not a terminal.
    """
    if not screen.interactive or not screen.can_ask:
        raise ConfigError(
            '--approve needs a terminal: without one, write approve = "later" in [policy] '
            "and approve with `podium decide RUN approve`"
        )

    async def ask(request: ApprovalRequest) -> bool | str | Plan:
        with nullcontext() if view is None else view.aside():
            if request.action is not None:
                action = request.action
                return await verdict_on_action(screen, action.step, f"{action.worker} {action.asked}")
            return await verdict_on(screen, request.plan, conductor)

    return ask


async def verdict_on_action(screen: Screen, step: int, action: str) -> bool | str:
    """Show an action with its arguments, and ask the person at the terminal whether it may be carried out."""
    screen.note(f"step {step}: {screen.shown(action)}")
    while (said := (await screen.ask(_ACTION)).strip().lower()) not in ("y", "yes", "n", "no", ""):
        screen.note(f"podium: {said!r} is not an answer")
    return said in ("y", "yes") or "refused at the terminal"


async def verdict_on(screen: Screen, shown: Plan, conductor: Conductor) -> Literal[True] | str | Plan:
    """Show a plan with its forecast, and ask the person at the terminal whether it may run.

    Returns:
        `True` if the plan may run, a text with the reason if it is refused, or the changed plan.
    """
    plan, workers = shown, conductor.pool.names
    while True:
        screen.draw_note(drawing.plan_table(plan, workers, screen.shown, conductor.actions_of(plan)))
        screen.draw_note(*drawing.forecast(conductor.forecast(plan), screen.shown))
        said = await _answer(screen)
        if said == "yes":
            return True if plan is shown else plan
        if said == "no":
            return "refused at the terminal"
        try:
            most = conductor.limits.plan_steps
            changed = await anyio.to_thread.run_sync(partial(edited, plan, workers, most))
            plan = plan if changed is None else changed
        except PodiumError as error:
            screen.note(f"podium: {error}")


async def _answer(screen: Screen) -> str:
    """Ask until the person answers `yes`, `no` or `edit`, and return the answer."""
    while (said := _ANSWERS.get((typed := await screen.ask(_QUESTION)).strip().lower())) is None:
        if typed.strip() != "?":
            screen.note(f"podium: {typed.strip()!r} is not an answer")
        screen.note(_HELP)
    return said
