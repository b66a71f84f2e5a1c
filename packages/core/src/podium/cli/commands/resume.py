"""`podium resume`: continue a recorded run."""

from collections.abc import Callable
from functools import partial
from getpass import getuser
from typing import Annotated

import anyio
import typer

from podium.cli.answer import Answering, at_the_terminal, verdict_on, verdict_on_action
from podium.cli.arguments import (
    Approve,
    AsJson,
    Calls,
    ConfigPath,
    Edits,
    InEditor,
    InputTokens,
    MaxCost,
    NewPlan,
    Outputs,
    OutputTokens,
    PlanChange,
    Rounds,
    Run,
    Seconds,
    Step,
    Steps,
    Subtask,
    Worker,
)
from podium.cli.lookup import RecordedRun, find_recorded_run
from podium.cli.screen import Screen, reporting
from podium.policy import Policy
from podium.run_state.state import waiting_for
from podium.types.events import ApprovalAsked, Event
from podium.types.plan import Plan
from podium.types.result import Result


def resume(  # noqa: PLR0913 - one parameter for each argument and option
    run: Run,
    *,
    plan: NewPlan = None,
    edits: Edits = None,
    edit: InEditor = False,
    step: Step = None,
    subtask: Subtask = None,
    worker: Worker = None,
    steps: Steps = None,
    calls: Calls = None,
    rounds: Rounds = None,
    seconds: Seconds = None,
    max_cost: MaxCost = None,
    input_tokens: InputTokens = None,
    output_tokens: OutputTokens = None,
    approve: Approve = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Repeat steps that lacked an input which exists by now.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Continue the run even after too many recoveries.")
    ] = False,
    config: ConfigPath = None,
    outputs: Outputs = False,
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted, failed or waiting run; recorded results are reused.

    The run keeps its limits; options replace them.
    """
    with reporting() as screen:
        recorded = find_recorded_run(config, run)
        change = PlanChange(file=plan, edits=edits, edit=edit, step=step, subtask=subtask, worker=worker)
        answering = Answering(screen, as_json=as_json, outputs=outputs, recorded=True, config=config)
        new_plan, policy = recorded.changed(change), None
        if approve:
            ask = recorded.conductor.policy.ask
            policy = Policy(approve=at_the_terminal(screen, answering.view, recorded.conductor), ask=ask)
            for asked in waiting_for(recorded.events):
                anyio.run(_decide_at_the_terminal, screen, recorded, asked, new_plan)
                new_plan = None
        if recorded.is_complete:
            screen.note("podium: the run is complete: this is its recorded answer, and nothing is called")
        limits = recorded.limits(
            steps=steps,
            calls=calls,
            rounds=rounds,
            seconds=seconds,
            cost=max_cost,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
        if limits is None and recorded.kept:
            told = ", ".join(recorded.kept)
            screen.note(f"podium: the run keeps its original limits: {told}")
        go_on = partial(
            recorded.conductor.resume,
            recorded.run_id,
            plan=new_plan,
            policy=policy,
            limits=limits,
            refresh=refresh,
            force=force,
        )

        async def job(listen: Callable[[Event], None]) -> Result:
            return await go_on(on_event=listen)

        answering.carry_out(job)


async def _decide_at_the_terminal(
    screen: Screen, recorded: RecordedRun, asked: ApprovalAsked, changed: Plan | None
) -> None:
    """Show the changed or waiting plan of a run, or an action, ask for approval, and record the decision."""
    plan: Plan | None = None
    if asked.step is not None:
        worker = recorded.conductor.pool.names[recorded.plan.steps[asked.step].worker]
        verdict: bool | str | Plan = await verdict_on_action(screen, asked.step, f"{worker} {asked.asked}")
    else:
        verdict = await verdict_on(screen, changed or recorded.plan, recorded.conductor)
        plan = verdict if isinstance(verdict, Plan) else changed
    approved = not isinstance(verdict, str)
    await recorded.conductor.decide(
        recorded.run_id,
        approved=approved,
        plan=plan if approved else None,
        action=asked.step,
        by=getuser(),
        why="" if isinstance(verdict, bool | Plan) else verdict,
    )
