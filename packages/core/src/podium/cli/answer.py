"""Runs a job for a command, asks for approval, and shows the result."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from getpass import getuser
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import anyio
import anyio.to_thread
import typer
from pydantic_core import to_jsonable_python

from podium.cli.arguments import OPTION_OF_LIMIT, command, edited, short_id
from podium.cli.live import Job, LiveState, follow
from podium.cli.screen import NO_ANSWER, PARTIAL, WAITING, Screen, duration, money
from podium.conductor import Conductor
from podium.config.source import in_toml
from podium.errors import (
    AnswerCut,
    ConfigError,
    JournalError,
    LimitExceeded,
    ListenerFailed,
    PlannerError,
    PodiumError,
    QueryError,
)
from podium.policy import ApprovalRequest
from podium.run.approval import REFUSED
from podium.run.replies import question_lines, read_answer
from podium.run.rounds import FALLBACK
from podium.run_state.actions import AGAIN
from podium.run_state.state import UNFINISHED
from podium.types.events import ApprovalAsked
from podium.types.forecast import explain_forecast, within
from podium.types.outcome import Action, Outcome, StepStatus
from podium.types.plan import Plan
from podium.types.result import STALE, Result, missing, steps_of, writer_of
from podium.workers.person import PersonWorker

if TYPE_CHECKING:
    from podium.cli.drawing import View


_ENDS = {
    "ok": "answered",
    "partial": "partial answer",
    "failed": "no answer",
    "waiting": "waiting for a person",
}


_TOLD: Final = 5
"""The number of further actions that a hint names."""
_FACTS = (
    "run_id",
    "status",
    "answer",
    "problem",
    "planner",
    "workers",
    "proposals",
    "outcomes",
    "actions",
    "usage",
    "estimated_usage",
    "usage_by_worker",
    "cost",
    "cost_by_worker",
    "maybe_paid",
    "usage_note",
    "seconds",
    "tool_calls",
)


def result_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON data; the forecast has whether the run stayed within it."""
    facts: dict[str, Any] = to_jsonable_python({name: getattr(result, name) for name in _FACTS})
    forecast = None
    if result.forecast is not None:
        outcomes = result.rounds[0].outcomes if result.rounds else ()
        is_within = within(result.forecast, outcomes) if outcomes else None
        forecast = {**asdict(result.forecast), "within": is_within}
    plans = [plan.to_json() for plan in result.plans]
    return {**facts, "plans": plans, "forecast": forecast, "explain": result.explain()}


def step_outputs(result: Result) -> list[str]:
    """Return the output of each step of the plans that has text, under a line that names the step."""
    steps = [outcome for current in result.rounds for outcome in (*steps_of(current), current.check)]
    return [output_of(outcome, result) for outcome in steps if outcome is not None and outcome.text]


def output_of(outcome: Outcome, result: Result) -> str:
    """Return the output of a step under a line that names it."""
    place = f"step {outcome.name}" if len(result.plans) < 2 else f"round {outcome.round}, step {outcome.name}"
    return f"--- {place} ({outcome.worker}): {outcome.end} ---\n{outcome.text}"


def status_line(result: Result) -> str:
    """Return one line with the run's status, steps, tokens, cost and time."""
    about, most = ("about ", "at most ") if result.usage.estimated else ("", "")
    cost = "cost unknown" if result.cost is None else (most if result.cost else "") + money(result.cost)
    facts = [*_steps(result), f"{about}{result.usage.total_tokens:,} tokens", cost, duration(result.seconds)]
    return f"{_ENDS[result.status]}{_answered_by(result)}: {', '.join(facts)}"


def charge_line(result: Result) -> str:
    """Return why the cost may differ from what is billed; empty if it does not."""
    unsure = "part of the cost may not be billed" if result.maybe_paid else ""
    return ": ".join(filter(None, [unsure, result.usage_note]))


def problem_line(result: Result) -> str:
    """Return the code and the message of the run's problem; empty if there is none or the run waits."""
    if result.problem is None or result.status == "waiting":
        return ""
    return f"{result.problem.code}: {in_toml(result.problem.message)}"


def _answered_by(result: Result) -> str:
    """Return ` by ` and the worker that wrote the answer; empty if there is no answer or no such step."""
    for current in reversed(result.rounds):
        writer = writer_of(current)
        if result.answer and writer is not None and writer.text == result.answer:
            return f" by {writer.worker}"
    return ""


def _steps(result: Result) -> list[str]:
    """Return the number of steps per status, and the planner."""
    steps = [outcome for current in result.rounds for outcome in steps_of(current)]
    if result.status == "waiting":  # the steps that have not begun are recorded as cancelled
        steps = [outcome for outcome in steps if outcome.started is not None]
    ends = Counter(
        "not ended" if each.is_waiting or each.problem == UNFINISHED else each.status for each in steps
    )
    facts = [f"{ends[end]} {end}" for end in (*get_args(StepStatus), "not ended") if ends[end]]
    if facts:
        first, _, end = facts[0].partition(" ")
        facts[0] = f"{first} step{'' if first == '1' else 's'} {end}"
    if result.rounds and result.planner is not None:
        fallback = ", the fallback" if result.planner.is_fallback else ""
        facts.append(f"planned by {result.planner.name}{fallback}")
    return facts


_QUESTION = "Run this plan? [y]es, [N]o, [e]dit, [?] help: "
_ACTION = "Carry out this action? [y]es, [N]o: "
_FAN_OUT = "Start them? [y]es, [N]o: "
_HELP = """\
  y, yes   run the plan as shown
  n, no    refuse the plan: the run ends without calling a step (default: the Enter key)
  e, edit  change the plan in $VISUAL or $EDITOR, then answer again
  ?        show this help
  Ctrl-C   leave: the run waits for approval, and `podium resume` continues it"""
_ANSWERS = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "": "no", "e": "edit", "edit": "edit"}


class Approver:
    """Asks the person at the terminal for approvals."""

    conductor: Conductor
    view: "View | None"
    """The live view, which is hidden during a question."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        if not screen.interactive or not screen.can_ask:
            raise ConfigError(
                '--approve needs a terminal: without one, write approve = "later" in [policy] '
                "and approve with `podium decide RUN approve`"
            )

    async def decide(self, request: ApprovalRequest) -> bool | str | Plan:
        """Ask about a plan, an action, or items or a turn; see `Policy.approve`."""
        with nullcontext() if self.view is None else self.view.aside():
            if (action := request.action) is None:
                return await verdict_on(self._screen, request.plan, self.conductor)
            asked = f"{action.worker} {action.asked}".strip()
            return await verdict_on_step(self._screen, action.name, asked, is_fan_out=not action.worker)


async def verdict_on_step(screen: Screen, name: str, asked: str, *, is_fan_out: bool) -> bool | str:
    """Ask the person at the terminal whether an action may be carried out, or items may start."""
    screen.note(f"step {name}: {screen.shown(asked)}")
    question = _FAN_OUT if is_fan_out else _ACTION
    while (said := (await screen.ask(question)).strip().lower()) not in ("y", "yes", "n", "no", ""):
        screen.note(f"podium: {said!r} is not an answer")
    return said in ("y", "yes") or "refused at the terminal"


async def answer_to(screen: Screen, asked: ApprovalAsked) -> str:
    """Ask the person at the terminal the question of a step until the answer is valid."""
    screen.note("\n".join(question_lines(asked)))
    while said := await screen.ask("Answer: "):
        try:
            return await read_answer(asked, said)
        except QueryError as error:
            screen.note(f"podium: {error}")
    raise QueryError("the input ended before the answer")


def answer_command(asked: ApprovalAsked, config: Path | None, journal: str | None = None) -> str:
    """Return the command that answers the question of a step."""
    decide = f"decide {quote(short_id(asked.run_id))} --answer TEXT --action {quote(asked.name)}"
    return command(decide, config, journal)


async def verdict_on(screen: Screen, shown: Plan, conductor: Conductor) -> Literal[True] | str | Plan:
    """Ask the person at the terminal whether a plan may run; a text refuses it, a plan replaces it."""
    from podium.cli.drawing import plan_table  # noqa: PLC0415 - rich is slow to import

    plan, workers = shown, conductor.pool.names
    while True:
        screen.draw(plan_table(plan, workers, screen.shown, conductor.actions_of(plan)), stderr=True)
        screen.note(explain_forecast(conductor.forecast(plan)))
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


_EXITS = {"partial": PARTIAL, "failed": NO_ANSWER, "waiting": WAITING}


@dataclass(slots=True, kw_only=True)
class Answering:
    """One run that a command starts and shows."""

    screen: Screen
    as_json: bool
    outputs: bool
    is_recorded: bool
    """Whether the run can be resumed."""
    config: Path | None
    if_recorded: str = ""
    """A note for a run that had ended before, whose recorded result is shown."""
    state: LiveState = field(default_factory=LiveState)
    view: "View | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.screen.interactive and not self.as_json:
            from podium.cli import drawing  # noqa: PLC0415 - rich is slow to import

            self.view = drawing.View(self.screen, self.state)

    def ask_persons(self, conductor: Conductor) -> None:
        """Let the persons in the pool answer at the terminal, if there is one."""
        if not (self.screen.interactive and self.screen.can_ask):
            return
        turn = anyio.Lock()

        async def ask(asked: ApprovalAsked) -> str:
            async with turn:
                with nullcontext() if self.view is None else self.view.aside():
                    return await answer_to(self.screen, asked)

        for worker in conductor.pool:
            if isinstance(worker, PersonWorker):
                worker.ask, worker.by = ask, getuser()

    def carry_out(self, job: Job) -> None:
        """Run the job, show its result, and exit with its exit code."""
        try:
            result = anyio.run(self._done, job)
        except (KeyboardInterrupt, PodiumError) as error:
            if isinstance(error, JournalError | ListenerFailed) and error.result is not None:
                self._show_result(error.result)  # the answer is paid for
            elif self.is_recorded and self.state.runs:
                run_id = next(iter(self.state.runs))
                resume = command(f"resume {quote(short_id(run_id))}", self.config)
                error.add_note(_with_higher_limit(resume, str(error)))
            root = self.state.root
            if isinstance(error, PlannerError) and self.as_json and root is not None and root.result:
                self._show_result(root.result)  # programs need the cost of a failed run too
            raise
        for output in step_outputs(result) if self.outputs and not self.as_json else ():
            self.screen.note(output)
        self._show_result(result)
        if not self.as_json:
            self._tell(result)
        if result.status != "ok":
            raise typer.Exit(_EXITS[result.status])

    async def _done(self, job: Job) -> Result:
        return await (follow(job, self.state) if self.view is None else self.view.watch(job))

    def _show_result(self, result: Result) -> None:
        if self.as_json:
            self.screen.result_json(result_json(result))
        else:
            show_answer(self.screen, result)

    def _tell(self, result: Result) -> None:
        """Write the status of the run, its id and what can be done to stderr."""
        root = self.state.root
        if self.if_recorded and root is not None and root.state.started is None:
            self.screen.note(f"podium: {self.if_recorded}")
        if self.screen.interactive or result.status != "ok":
            for line in filter(None, [status_line(result), charge_line(result), problem_line(result)]):
                self.screen.note(f"podium: {line}")
        if self.is_recorded:
            waiting = () if root is None else root.state.waiting
            told = next_command(result, waiting, self.config)
            if told and result.status == "waiting":
                see = command(f"show {quote(short_id(result.run_id))}", self.config)
                told = f"see it with `{see}`, then {told}"
            self.screen.note(f"podium: run {result.run_id}{': ' if told else ''}{told}")


def show_answer(screen: Screen, result: Result) -> None:
    """Write the answer, if there is one, to stdout: as Markdown in a terminal, else verbatim."""
    if result.answer and screen.interactive:
        from rich.markdown import Markdown  # noqa: PLC0415 - it is slow to import

        screen.draw(Markdown(screen.shown(result.answer), hyperlinks=False))
    elif result.answer:
        screen.result(result.answer)


def next_command(result: Result, waiting: Sequence[ApprovalAsked], config: Path | None) -> str:
    """Return the commands that help with a run that has no complete answer; else an empty text."""
    code, told = ("", "") if result.problem is None else (result.problem.code, result.problem.message)
    short = quote(short_id(result.run_id))
    resume = command(f"resume {short}", config)
    if code == FALLBACK:
        is_asked = any(call.asked and call.problem is not None for call in result.proposals)
        return f"ask the planner again with `{resume}`" if is_asked else ""  # the policy forbids the call
    if code == LimitExceeded.code or (code == AnswerCut.code and "Limits." in told):
        return _with_higher_limit(resume, told)
    outcomes = [each for current in result.rounds[-1:] for each in current.outcomes]
    failed = [each for each in outcomes if each.status == "failed" and each.attempts]
    resume = resume_command(result, config)
    ends = ("failed", "unknown") if result.status in ("partial", "failed") else ("unknown",)
    undecided = [action for action in result.actions if action.end in ends]
    if undecided:  # they are not repeated before a person decides
        return f"{_how_to_decide(undecided, config)}, then continue with `{resume}`"
    match "ok" if code == AGAIN else result.status:  # a person checks what an agent has done twice
        case "ok":
            return ""
        case "waiting":
            approve = command(f"decide {short} approve", config)
            refuse = command(f"decide {short} refuse --why TEXT", config)
            is_question = waiting and waiting[0].question is not None
            return f"`{answer_command(waiting[0], config)}`" if is_question else f"`{approve}` or `{refuse}`"
        case _:
            refused = [each for each in outcomes if each.problem is not None and each.problem.code == REFUSED]
            what = "retry the failed steps" if failed else "continue the run"
            what = "make these steps again" if code == STALE else what
            if refused and not failed:
                what, resume = "change the plan", command(f"resume {short} --edit", config)
            return f"{what} with `{resume}`"


def resume_command(result: Result, config: Path | None) -> str:
    """Return the command that continues a run; with `--refresh` if steps lacked an input."""
    is_stale = result.problem is not None and result.problem.code == STALE
    parts = (each for current in result.rounds[-1:] for each in current.outcomes if each.path)
    is_cut = any(each.status == "failed" and each.attempts for each in parts)
    refreshes = result.answer and (is_stale or is_cut or missing(result.rounds[-1]))
    return command(f"resume {quote(short_id(result.run_id))}{' --refresh' if refreshes else ''}", config)


def _how_to_decide(actions: Sequence[Action], config: Path | None) -> str:
    """Return the command that decides on the first of the actions, and the names of the others."""
    first, *others = actions
    places = Counter(each.name for each in actions)
    names = [each.name if places[each.name] == 1 else each.short_key for each in actions]
    decide = f"decide {quote(short_id(first.run_id))} --action {quote(names[0])} done|not-done"
    told = f"decide with `{command(decide, config)}`"
    if others:
        listed = [f"--action {quote(name)}" for name in names[1 : 1 + _TOLD]]
        listed += [f"{len(others) - _TOLD} more"] if len(others) > _TOLD else []
        told += f", and in the same way on {', '.join(listed)}"
    return told


def _with_higher_limit(resume: str, message: str) -> str:
    """Return how to continue a run: with an approval, or with higher limits if the message names some."""
    if "Policy.ask_above" in message:
        return f"approve it with `{resume} --approve`, or raise `ask_above` in [policy] and run `{resume}`"
    named = dict.fromkeys(re.findall(r"\bLimits\.(\w+)", message))
    options = [OPTION_OF_LIMIT[name] for name in named if name in OPTION_OF_LIMIT]
    if not options:  # a limit of one step or call, which is read from the config each time
        return f"continue with `{resume}`"
    return f"continue with `{resume} {' N '.join(options)} N` (a changed podium.toml is for new runs only)"
