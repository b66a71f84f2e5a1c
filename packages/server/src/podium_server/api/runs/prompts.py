"""Makes the prompts of the steps of a recorded run, with the code that makes the prompts of workers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel, Field

from podium.errors import PodiumError
from podium.prompts.prompt import gap_of, shown_step, step_input, worker_messages
from podium.run_state.paid import Exchange
from podium.types import (
    ApprovalGiven,
    Block,
    Event,
    Message,
    Outcome,
    Plan,
    PlanReady,
    RunStarted,
    StepEnded,
    StepStarted,
)
from podium.types.steps import AnyStep
from podium.workers import VisibleStep
from podium_server.models import ServedModel

_SUPERSEDED = "superseded"


class StepPrompt(BaseModel):
    """What the worker of a step was shown."""

    round: int
    step: int
    worker: str = Field(description="The worker that was called last.")
    messages: list[dict[str, Any]] | None = Field(description="The prompt; null if it cannot be made.")
    why: str | None = Field(description="Why the prompt cannot be made.")
    shown: list[int] = Field(description="The earlier steps of the round that the worker saw.")
    previous: list[int] = Field(description="The steps of the round before that the worker saw.")
    hidden: list[int] = Field(description="The other steps of the round.")


class PromptList(BaseModel):
    """The prompts of the steps of a run that have started."""

    object: str = "list"
    data: list[StepPrompt]


@dataclass(slots=True)
class _Round:
    """What is recorded of a round."""

    plan: Plan | None = None
    ended: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes, in the order in which the steps ended."""
    workers: dict[int, str] = field(default_factory=dict)
    """The last worker of each step that has started."""
    before: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """For each step that has started, the steps that had ended then, in their order."""

    def started(self, step: int, worker: str) -> None:
        self.workers[step] = worker
        self.before.setdefault(step, tuple(self.ended))

    def was_ended(self, step: int, outcome: Outcome) -> None:
        if outcome.problem is not None and outcome.problem.code == _SUPERSEDED:
            self.before.pop(step, None)
            self.workers.pop(step, None)
            return
        if outcome.attempts or outcome.reused:
            self.started(step, outcome.worker)
        self.ended[step] = outcome


def prompts_of(events: Sequence[Event], model: ServedModel | None) -> list[StepPrompt]:
    """Return the prompts of the steps that have started, in the order of the plan."""
    rounds: dict[int, _Round] = {}
    for event in events:
        match event:
            case PlanReady():
                rounds.setdefault(event.round, _Round()).plan = event.plan
            case ApprovalGiven(plan=Plan() as plan):
                rounds.setdefault(event.round, _Round()).plan = plan
            case StepStarted():
                rounds.setdefault(event.round, _Round()).started(event.step, event.worker)
            case StepEnded():
                rounds.setdefault(event.round, _Round()).was_ended(event.step, event.outcome)
    if not events:  # the run is in the queue
        return []
    started = events[0]
    assert isinstance(started, RunStarted)
    ended = [event.outcome for event in events if isinstance(event, StepEnded)]
    said = [message.tool_calls for outcome in ended for message in outcome.said]
    calls = [call for made in (*said, *(outcome.tool_calls for outcome in ended)) for call in made]
    exchange = Exchange(started.tool_messages, {str(call.get("id")) for call in calls})
    writer = _Writer(started, model, exchange)
    return [
        writer.prompt(number, step, current, rounds.get(number - 1))
        for number, current in sorted(rounds.items())
        if current.plan is not None
        for step in sorted(current.before)
        if step < len(current.plan.steps)
    ]


class _Writer:
    """Makes the prompts of one run."""

    def __init__(self, started: RunStarted, model: ServedModel | None, exchange: Exchange) -> None:
        self._started = started
        self._model = model
        self._exchange = exchange

    def prompt(self, number: int, index: int, current: _Round, previous: _Round | None) -> StepPrompt:
        """Return the prompt of a step."""
        assert current.plan is not None
        step = current.plan.steps[index]
        seen = _seen(step, index, current)
        visible = [_shown(current.plan, each, current.ended[each], self._started) for each in seen]
        earlier = self._earlier(previous) if step.previous else []
        messages, why = self._messages(index, current, [*earlier, *visible])
        return StepPrompt(
            round=number,
            step=index,
            worker=current.workers[index],
            messages=None if messages is None else [message.to_wire() for message in messages],
            why=why,
            shown=list(seen),
            previous=[each.step for each in earlier],
            hidden=[each for each in range(len(current.plan.steps)) if each not in (*seen, index)],
        )

    def _earlier(self, previous: _Round | None) -> list[VisibleStep]:
        if previous is None or previous.plan is None:
            return []
        names, plan = self._started.context, previous.plan
        good = [(step, each) for step, each in sorted(previous.ended.items()) if each.status == "ok"]
        good = [(step, each) for step, each in good if step < len(plan.steps)]
        return [shown_step(plan, step, each.text, previous=True, names=names) for step, each in good]

    def _messages(
        self, index: int, current: _Round, visible: Sequence[VisibleStep]
    ) -> tuple[tuple[Message, ...] | None, str | None]:
        """Return the messages, or why they cannot be made."""
        assert current.plan is not None
        worker, step = current.workers[index], current.plan.steps[index]
        if isinstance(step, Block):
            return None, "a block of steps is not sent to a worker"
        if self._model is None:
            return None, f"this server does not have the model {self._started.conductor!r} of the run"
        conductor = self._model.conductor
        if worker not in conductor.pool.names:
            return None, f"the model does not have the worker {worker!r} any more"
        query, number = self._started.query, conductor.pool.names.index(worker)
        if self._model.is_worker:  # it sees the request as it is
            return (*query, *self._started.tool_messages), None
        others = self._exchange.others if index in current.plan.answers else ()
        ended = current.ended.get(index)
        after = (*others, *self._exchange.own(() if ended is None else ended.said))
        called, card = conductor.pool.workers[number], conductor.pool.cards[number]
        try:
            shown = step_input(
                called,
                step,
                visible,
                card.remembers(query) if conductor.show_question else (),
                most_chars=conductor.limits.output_chars,
                texts=self._started.context,
            )
        except PodiumError as error:
            return None, str(error)
        read = replace(shown, texts=()) if called.takes_texts else shown
        return (*worker_messages(read, card), *after), None


def _seen(step: AnyStep, index: int, current: _Round) -> tuple[int, ...]:
    """Return the steps that a step saw: those on its access list; with `enough`, those that ended first."""
    outcome = current.ended.get(index)
    if outcome is not None and outcome.shown is not None:
        return tuple(each for each in outcome.shown if each in current.ended)
    ended = [each for each in current.before[index] if each in step.access]
    good = [each for each in ended if current.ended[each].status == "ok"]
    if len(good) < step.least:
        return tuple(sorted(ended))
    return tuple(sorted(good[: step.least] if step.enough is not None else good))


def _shown(plan: Plan, index: int, outcome: Outcome, started: RunStarted) -> VisibleStep:
    gap = gap_of(outcome)
    return shown_step(plan, index, "" if gap else outcome.text, gap, names=started.context)
