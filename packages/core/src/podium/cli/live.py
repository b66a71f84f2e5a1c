"""The state of a run and of its nested runs, from their events, and the notes on them."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal, NamedTuple

from podium.cli.screen import counted
from podium.config.source import in_toml
from podium.errors import PlanError
from podium.plan_text import PlanReader
from podium.run_state.round_state import CallState, RecordedStep, RoundState
from podium.run_state.state import RunState
from podium.types.events import (
    AnswerDelta,
    Event,
    PlanDelta,
    PlannerEnded,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
)
from podium.types.executions import Executions
from podium.types.outcome import ACTION_ENDS, Outcome, StepStatus, for_people, total_cost
from podium.types.plan import Plan
from podium.types.result import Result
from podium.types.steps import AnyStep, plan_step, task_of, worker_of

Shown = Callable[[str], str]
"""Makes foreign text safe for a terminal."""
Job = Callable[[Callable[[Event], None]], Awaitable[Result]]
"""Runs a query and reports its events to the given function."""
_TAIL_CHARS = 4000
"""Characters that are kept of an answer while a worker writes it."""


@dataclass(slots=True)
class StepRow:
    """One step, with times on the caller's clock in seconds."""

    number: str
    """Its index in the plan, with the planner's own number."""
    worker: str
    """Empty while the planner writes the plan and the step has not started."""
    subtask: str
    sees: tuple[int | str, ...]
    acts: bool
    status: StepStatus | Literal["waiting", "running"]
    outcome: Outcome | None
    """`None` while it runs or waits."""
    since: float | None
    """When it started; `None` while it does not run."""
    again: float | None
    """When it is retried; `None` if no retry is scheduled."""
    calls: list[CallState]
    runs: list["RunRow"]
    """The runs nested in it."""
    inside: Executions | None
    """The items of a map, or the turns of a loop; `None` without one."""
    counts: str
    """Their number in words; empty without them."""
    waits: str
    """The items or turns that wait for an approval, in words; empty without them."""

    @property
    def tokens(self) -> int:
        """The tokens of the step, with those inside of it."""
        own = 0 if self.outcome is None else self.outcome.usage.total_tokens
        return own + (0 if self.inside is None else self.inside.tokens)

    @property
    def is_estimated(self) -> bool:
        """Whether some tokens are estimated, so that the cost is the most that may be billed."""
        own = self.outcome is not None and self.outcome.usage.estimated
        return own or (self.inside is not None and self.inside.estimated > 0)

    @property
    def cost(self) -> float | None:
        """The cost in USD of the step, with the cost inside of it; `None` if it is unknown."""
        own = 0.0 if self.outcome is None else self.outcome.cost
        return own if self.inside is None else total_cost([own, self.inside.cost])


@dataclass(slots=True)
class _Draft:
    """A plan that is being written."""

    reader: PlanReader | None
    """Parses the text; `None` after an error."""
    chars: int = 0
    steps: list[AnyStep] = field(default_factory=list)


@dataclass(slots=True)
class RunRow:
    """The state of one run."""

    runs: dict[str, "RunRow"]
    """All runs of the view."""
    state: RunState = field(default_factory=RunState)
    began: float = 0.0
    """When it started, on the caller's clock, without interruptions."""
    answer: str = ""
    """The last characters of the answer so far."""
    answering: tuple[int | None, int | None, int | None] | None = None
    """Round, step and attempt that write the answer; `None` before its first piece."""
    drafts: dict[int, _Draft] = field(default_factory=dict)

    @property
    def result(self) -> Result | None:
        """The result; `None` before the end."""
        return self.state.end.result if isinstance(self.state.end, RunEnded) else None

    @property
    def told(self) -> str:
        """The message of its problem, if it is told below the notes."""
        result = self.result
        if result is None or result.problem is None or result.status == "waiting" or self.state.parent[0]:
            return ""
        return result.problem.message

    def take(self, event: Event, now: float) -> None:
        """Change the state by the next event of the run."""
        self.state.take(event)
        match event:
            case RunStarted() | RunResumed():
                self.began = now - event.at
            case PlanDelta():
                self._write(event)
            case PlannerEnded() if event.proposal.problem is not None:
                self.drafts.pop(event.round, None)
            case AnswerDelta():
                attempt = (event.round, event.step, event.attempt)
                before = self.answer if self.answering == attempt else ""  # another attempt starts it again
                self.answer, self.answering = (before + event.text)[-_TAIL_CHARS:], attempt

    def _write(self, event: PlanDelta) -> None:
        """Add a piece of plan text, and the steps that it completes."""
        if (draft := self.drafts.get(event.round)) is None:
            reader = PlanReader(workers=self.state.workers, previous=event.round > 1)
            draft = self.drafts[event.round] = _Draft(reader)
        draft.chars += len(event.text)
        try:
            draft.steps += () if draft.reader is None else draft.reader.feed(event.text)
        except PlanError:  # `PlannerEnded` reports it
            draft.reader = None

    def steps(self, current: RoundState) -> dict[int, StepRow]:
        """Return the steps of a round by index: those of its plan, or of its draft, and those that began."""
        draft, plan = self.drafts.get(current.number), None
        if current.ready is not None:
            plan = (current.decision and current.decision.plan) or current.ready.plan
        planned = plan.steps if plan is not None else draft.steps if draft is not None else ()
        own = ((index, step) for index, step in current.steps.items() if not step.path)
        begun = {index for index, step in own if step.status != "waiting"}
        return {
            index: self._step(current, index, planned[index] if index < len(planned) else None, plan)
            for index in sorted({*range(len(planned)), *begun})
        }

    def _step(self, current: RoundState, index: int, step: AnyStep | None, plan: Plan | None) -> StepRow:
        state = current.steps.get(index) or RecordedStep()
        # The others are of a step that this one replaces.
        calls = [call for call in state.calls if call.ended is None or call.ended is state.outcome]
        outcome = state.outcome if state.since is None else None
        begun = outcome or (calls[-1].start if calls else None)
        worker = "" if plan is None or step is None else worker_of(step, self.state.names)
        parents = {(self.state.run_id, current.number, index, call.start.attempt) for call in calls}
        subtask = calls[-1].start.subtask if calls else ""
        failed, again = calls[-1].failed if calls and state.since is not None else None, None
        if failed is not None and failed.wait is not None:
            again = self.began + failed.at + failed.wait
        status, since, counts = state.status, state.since, ""
        if (inside := current.inside.get(index)) is not None and step is not None:
            nested = sum(self._is_inside(run, current, index) for run in self.runs.values())
            counts = inside.told(step) + (f", {counted(nested, 'nested run')}" if nested else "")
            if status == "waiting" and inside.since is not None and self.state.end is None:
                status, since = "running", inside.since
        waits = self._waits(current, index)
        if waits or (outcome is not None and outcome.is_waiting):
            status, outcome = "waiting", None
        return StepRow(
            number=str(index) if plan is None else plan.numbered(index),
            worker=worker if begun is None else begun.worker,
            subtask=subtask if step is None else task_of(step),
            sees=() if step is None else tuple(step.access_list),
            acts=current.ready is not None and index in current.ready.actions,
            status=status,
            outcome=outcome,
            since=None if since is None else self.began + since,
            again=again,
            calls=calls,
            runs=[run for run in self.runs.values() if run.state.parent in parents],
            inside=inside,
            counts=counts,
            waits=waits,
        )

    def _waits(self, current: RoundState, index: int) -> str:
        """Return what of a step waits for an approval, in words; empty if nothing does."""
        steps = [
            asked for asked in self.state.waiting if asked.round == current.number and asked.step is not None
        ]
        own = [asked for asked in steps if plan_step(asked.name) == index]
        if len(own) == 1:
            return own[0].asked
        what = "approval" if own and own[0].question is None else "an answer"
        return f"{len(own)} wait for {what}" if own else ""

    def _is_inside(self, run: "RunRow", current: RoundState, index: int) -> bool:
        """Return whether a run is nested in an execution inside of a step."""
        parent, number, step, _ = run.state.parent
        path = current.steps[step].path if step in current.steps else ""
        return bool(path) and (parent, number, plan_step(path)) == (self.state.run_id, current.number, index)


class LiveState:
    """The state of a run and of all runs nested in it."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}

    @property
    def root(self) -> RunRow | None:
        """The run that the user started; `None` before its first event."""
        return next(iter(self.runs.values()), None)

    def take(self, event: Event, now: float) -> None:
        """Update the state with an event, which happened at `now` on the caller's clock, in seconds."""
        self.runs.setdefault(event.run_id, RunRow(self.runs)).take(event, now)


async def follow(job: Job, state: LiveState) -> Result:
    """Run the job, and update `state` with each event."""
    return await job(lambda event: state.take(event, monotonic()))


class Note(NamedTuple):
    """One line below the table."""

    text: str
    style: str


def run_notes(state: LiveState, shown: Shown) -> list[Note]:
    """Return the notes on a run and on its nested runs, each on one line."""
    found = () if state.root is None else _of_run(state.root, "")
    return [Note(" ".join(in_toml(shown(note.text)).split()), note.style) for note in found]


def _of_run(run: RunRow, above: str) -> Iterator[Note]:
    for number, current in run.state.rounds.items():
        place = f"{above}round {number}, " if len(run.state.rounds) > 1 else above
        yield from _of_round(run, current, place)
    if isinstance(run.state.end, RunStopped):
        yield Note(f"{above}stopped: {run.state.end.problem.message}", "yellow")


def _of_round(run: RunRow, current: RoundState, place: str) -> Iterator[Note]:
    if current.reason:
        yield Note(f"{place}because {current.reason}", "dim")
    if current.ready is not None and current.ready.why:
        yield Note(f"{place}plan: {current.ready.why}", "dim")
    for event in current.planned:
        if (problem := event.proposal.problem) is not None:
            then = "" if event.wait is None else f"; retry in {event.wait:.1f} s"
            yield Note(f"{place}planner {event.proposal.planner}: {for_people(problem)}{then}", "yellow")
    skipped: dict[str, list[int]] = {}
    steps = run.steps(current)
    for index, step in steps.items():
        yield from _of_step(step, f"{place}step {index}", run.told)
        for nested in step.runs:
            yield from _of_run(nested, f"{place}step {index}, ")
        if step.status == "skipped":
            skipped.setdefault(_cause(steps, index), []).append(index)
    for cause, indexes in skipped.items():
        told = f"step{'' if len(indexes) == 1 else 's'} {', '.join(map(str, indexes))}"
        yield Note(f"{place}{told} skipped: {cause}", "yellow")


def _of_step(step: StepRow, name: str, told_below: str) -> Iterator[Note]:
    if step.outcome is not None and step.outcome.stands_for is not None:
        yield Note(f"{name}: {step.outcome.end}", "dim")
    if step.outcome is not None and step.outcome.action is not None:
        end = ACTION_ENDS[step.outcome.action]
        yield Note(f"{name} is an action (!): {end}", "dim" if step.outcome.action == "done" else "yellow")
    for call in [call.failed.call for call in step.calls if call.failed is not None]:
        told = "" if call.problem is None else call.problem.message
        paid = ", perhaps paid" if call.maybe_paid else ""
        yield Note(f"{name}, call {call.attempt} of {call.worker}: {told}{paid}", "yellow")
    problem = None if step.outcome is None else step.outcome.problem
    if problem is not None and step.status != "skipped" and problem.message not in told_below:
        how = "" if step.status == "ok" else f" {step.status}"
        yield Note(f"{name}{how}: {problem.message}", "red" if step.status == "failed" else "yellow")


def _cause(steps: dict[int, StepRow], skipped: int) -> str:
    """Return the failed steps because of which a step was skipped, or the step's own problem."""
    behind = [skipped]
    for index in behind:
        if index in steps and steps[index].status == "skipped":
            behind += [each for each in steps[index].sees if isinstance(each, int) and each not in behind]
    roots = [i for i in sorted(behind) if i in steps and steps[i].status in ("failed", "cancelled")]
    outcome = steps[skipped].outcome
    problem = None if outcome is None else outcome.problem
    if problem is not None and (problem.code != "dependency" or not roots):
        return problem.message
    ends = {index: "was cancelled" if steps[index].status == "cancelled" else "failed" for index in roots}
    return "; ".join(f"step {index} {end}" for index, end in ends.items())
