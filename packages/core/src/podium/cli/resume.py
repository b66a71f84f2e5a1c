"""`podium resume` and `podium decide`: continue a recorded run, or decide on what it waits for."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer

from podium import replay as replays
from podium.budget.limits import OF_RUN, Limits
from podium.cli import arguments
from podium.cli.answer import Answering, Approver, resume_command, verdict_on, verdict_on_step
from podium.cli.arguments import PlanChange, exclude, find_run, look
from podium.cli.screen import Screen, reporting
from podium.conductor import Conductor
from podium.config import Variant, find_config, load_config
from podium.config.load import find_journal
from podium.errors import ConfigError, RunHeld
from podium.journal import SqlJournal
from podium.journal.journal import shortened
from podium.run import Decision, approval
from podium.run_state import fold
from podium.run_state.state import RunState, for_pool
from podium.types.events import ApprovalAsked, Event, RunEnded
from podium.types.plan import Plan
from podium.types.steps import step_at, worker_of

Verdict = Literal["approve", "refuse", "done", "not-done"]


def resume(  # noqa: PLR0913 - one parameter for each argument and option
    run: arguments.Run,
    *,
    plan: arguments.NewPlan = None,
    edit: arguments.InEditor = False,
    step: arguments.Step = None,
    subtask: arguments.Subtask = None,
    worker: arguments.Worker = None,
    steps: arguments.Steps = None,
    calls: arguments.Calls = None,
    rounds: arguments.Rounds = None,
    seconds: arguments.Seconds = None,
    cost: arguments.Cost = None,
    input_tokens: arguments.InputTokens = None,
    output_tokens: arguments.OutputTokens = None,
    approve: arguments.Approve = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Repeat steps that lacked an input which exists by now.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Continue the run even after too many recoveries.")
    ] = False,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Repeat the run as a new run, from its recorded outputs, at no cost."),
    ] = False,
    config: arguments.ConfigPath = None,
    outputs: arguments.Outputs = False,
    as_json: arguments.AsJson = False,
) -> None:
    """Continue, change or replay a recorded run.

    A run that was interrupted, failed or waits continues; recorded results are reused. The run keeps its
    limits; options replace them. With a changed plan, only the steps whose input differs are called.
    """
    with reporting() as screen:
        limits = {"steps": steps, "calls": calls, "rounds": rounds, "seconds": seconds, "cost": cost}
        limits |= {"input_tokens": input_tokens, "output_tokens": output_tokens}
        if replay:
            others = {"--approve": approve, "--refresh": refresh, "--force": force}
            exclude("--replay", others | {"a limit": any(limits.values())})
        approver = Approver(screen) if approve else None
        recorded = _find(config, run, Variant(approve=approver.decide if approver else None))
        conductor, state = recorded.conductor, recorded.state
        change = PlanChange(file=plan, edit=edit, step=step, subtask=subtask, worker=worker)
        answering = Answering(
            screen=screen, as_json=as_json, outputs=outputs, is_recorded=True, config=config
        )
        new_plan = recorded.changed(change)
        if replay:
            again = partial(replays.replay, conductor, recorded.events, plan=new_plan)
            answering.carry_out(lambda listen: again(on_event=listen))
            return
        answering.ask_persons(conductor)
        if approver is not None:
            approver.conductor, approver.view = conductor, answering.view
            for asked in (each for each in state.waiting if each.question is None):
                anyio.run(_decide_at_the_terminal, screen, recorded, asked, new_plan)
                new_plan = None
        if isinstance(state.end, RunEnded) and state.end.result.status == "ok":
            told = "this is its recorded answer, and nothing is called"
            if new_plan is not None:
                told = "its plan is replaced, and the steps whose input differs are called"
            screen.note(f"podium: the run is complete: {told}")
        if new_plan is not None:
            screen.note(f"podium: {anyio.run(conductor.preview, recorded.run_id, new_plan)}")
        own = conductor.limits.keeping(state.limits)
        new: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
        if not new and (kept := _differences(own, conductor.limits)):
            screen.note(f"podium: the run keeps its original limits: {kept}")
        changed = replace(own, **new) if new else None
        go_on = partial(conductor.resume, recorded.run_id, plan=new_plan, limits=changed)
        answering.carry_out(lambda listen: go_on(refresh=refresh, force=force, on_event=listen))


def _differences(own: Limits, config: Limits) -> str:
    """Return the limits of a run that differ from those of the config, as text."""
    values = {name: getattr(own, name) for name in OF_RUN if getattr(own, name) != getattr(config, name)}
    return ", ".join(f"no {name}" if value is None else f"{name} {value:g}" for name, value in values.items())


def decide(  # noqa: PLR0913 - one parameter for each argument and option
    run: arguments.Run,
    verdict: Annotated[
        Verdict | None,
        typer.Argument(
            help="`approve` or `refuse` what waits; `done` or `not-done` for the end of an action."
        ),
    ] = None,
    *,
    answer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Answer the question of a step, instead of a verdict.")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(
            metavar="STEP",
            help="The step: its number, or a name as in '2[17]'; or the key of an action. "
            "Default: all that waits.",
        ),
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=1, metavar="R", help="The round of the action.")
    ] = None,
    changed: Annotated[
        str | None,
        typer.Option("--arguments", metavar="TEXT", help="What the approved action is to do instead."),
    ] = None,
    plan: arguments.NewPlan = None,
    edit: arguments.InEditor = False,
    step: arguments.Step = None,
    subtask: arguments.Subtask = None,
    worker: arguments.Worker = None,
    by: Annotated[
        str, typer.Option(metavar="NAME", default_factory=getuser, help="Name recorded with the decision.")
    ],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Reason; a refusal needs one.")] = "",
    config: arguments.ConfigPath = None,
    journal: arguments.JournalPlace = None,
) -> None:
    """Approve or refuse what a run waits for.

    Or answer the question of a step, or say whether an action happened. A run does not carry out an action
    whose end is unknown again. `done` takes it as carried out; after `not-done`, `podium resume` carries it
    out.
    """
    with reporting() as screen:
        change = PlanChange(file=plan, edit=edit, step=step, subtask=subtask, worker=worker)
        if (verdict is None) == (answer is None):
            raise ConfigError("give a verdict, such as `approve` or `done`, or --answer TEXT")
        if verdict == "refuse" and not why:
            raise ConfigError("a refusal needs a reason: add --why TEXT")
        if verdict in ("done", "not-done") and action is None:
            raise ConfigError(f"{verdict} is about one action: add --action STEP, with its step")
        if changed is not None and verdict != "approve":
            raise ConfigError("--arguments change an approved action: add `approve`")
        if change != PlanChange() and (verdict != "approve" or action is not None):
            told = "only an approved plan can be changed: leave out the options that change the plan"
            raise ConfigError(told)
        record = find_journal(config, journal)
        run_id, events = look(record, partial(_read, record, run))
        given = Decision(action=action, by=by, why=why, answer=answer, arguments=changed)
        if verdict in ("approve", "refuse"):
            given["approved"] = verdict == "approve"
        elif verdict is not None:
            given |= {"done": verdict == "done", "round": round_}
        if change == PlanChange():
            decided = partial(approval.decide, record, run_id, **given)
        else:
            recorded = _to_change(config, journal, run_id)
            given["plan"] = recorded.changed(change)
            decided = partial(recorded.conductor.decide, run_id, **given)
        what = f"run {run_id}" + ("" if action is None else f", step {action}")
        if action is not None and verdict in ("done", "not-done"):  # a person checks the action
            meant = approval.open_action(fold(events), action, round_ or 0)
            what = f"run {run_id}, step {meant.name} ({meant.worker}: {shortened(meant.asked)})"
        _record(decided, events)
        resume = resume_command(fold(events).result(), config)
        told = f"continue with `{resume}`, or in the program that made the run with the same call and run id"
        screen.note(f"podium: recorded {verdict or 'the answer'} for {what}; {told}")


def _record(decided: Callable[[], Awaitable[None]], events: Sequence[Event]) -> None:
    try:
        anyio.run(decided)
    except RunHeld as error:
        if any(asked.question is not None for asked in fold(events).waiting):
            error.add_note("answer where it asks, or end it there with Ctrl-C: the question then waits")
        raise


def _to_change(config: Path | None, journal: str | None, run_id: str) -> "_Recorded":
    """Return the run with the conductor of the config, which checks a changed plan."""
    how = "the program that made the run can change it: `decide(run_id, approved=True, plan=...)`"
    told = f"a changed plan is checked with the workers and the policy of the config; {how}"
    if journal is not None:
        raise ConfigError(f"{told}; else leave out --journal, and name the config with --config")
    try:
        return _find(config, run_id, Variant())
    except ConfigError as error:
        error.add_note(told)
        raise


async def _decide_at_the_terminal(
    screen: Screen, recorded: "_Recorded", asked: ApprovalAsked, changed: Plan | None
) -> None:
    """Show the changed or waiting plan of a run, or an action, ask for approval, and record the decision."""
    plan: Plan | None = None
    if asked.step is not None:
        step = step_at(recorded.plan.steps, asked.name)
        worker = "" if asked.is_fan_out else f"{worker_of(step, recorded.conductor.pool.names)} "
        verdict: bool | str | Plan = await verdict_on_step(
            screen, asked.name, f"{worker}{asked.asked}", is_fan_out=asked.is_fan_out
        )
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


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A recorded run with the conductor of the config."""

    run_id: str
    events: Sequence[Event]
    state: RunState
    conductor: Conductor

    def changed(self, change: PlanChange) -> Plan | None:
        """Return the changed plan of the last round; `None` for no change."""
        if change == PlanChange():
            return None
        return change.apply(self.plan, self.conductor)

    @property
    def plan(self) -> Plan:
        """The plan of the last round; `ConfigError` if there is none, or a worker is not in the pool."""
        rounds = sorted(self.state.rounds.items(), reverse=True)
        ready = next((current.ready for _, current in rounds if current.ready is not None), None)
        if ready is None:
            raise ConfigError(f"run {self.run_id} has no plan yet")
        return for_pool(ready.plan, self.state.names, self.conductor.pool.names)


def _find(path: Path | None, typed: str, variant: Variant) -> _Recorded:
    """Return the run whose id begins with `typed`, from the journal of the config at `path`."""
    config = load_config(find_config(path))
    journal = config.journal()
    if journal is None:
        raise ConfigError(f"{config.path} records no runs: remove `off` in [journal]")
    run_id, events = look(journal, partial(_read, journal, typed))  # before MCP servers start
    return _Recorded(run_id, events, fold(events), config.conductor(variant=variant))


async def _read(journal: SqlJournal, typed: str) -> tuple[str, Sequence[Event]]:
    """Return the id and the events of the run whose id begins with `typed`."""
    row = await find_run(journal, typed)
    return row.run_id, [entry.event for entry in await journal.read(row.run_id)]
