"""Describes the events of a run to a reader: the plan, the steps, and with `all` also their outputs.

Executions inside of maps and blocks are named, and the items of maps are counted.
"""

from typing import Literal

from podium.budget.ledger import UNREPORTED
from podium.hosts.results import plan_lines
from podium.secrets import scrub
from podium.types import (
    AnswerDelta,
    ApprovalAsked,
    AttemptFailed,
    Call,
    Event,
    Outcome,
    PlanReady,
    RoundStarted,
    RunResumed,
    RunStarted,
    StepDelta,
    StepEnded,
    StepStarted,
)
from podium.types.events import FanOut
from podium.types.executions import Executions

_PART = 0.1
"""The part of the items of a map after whose ends its counts are told again."""


class Maps:
    """The executions of one run inside of maps and blocks, from the events of the run.

    The first event is of this run; the events of its nested runs are left out.
    """

    def __init__(self) -> None:
        self._run_id = ""
        self._names: dict[tuple[int, int], str] = {}
        self._maps: dict[tuple[int, str], Executions] = {}
        self._tokens: dict[tuple[int, int], dict[str, int]] = {}
        """By round and step of the plan: the tokens of the executions inside of it, by name."""
        self._told: dict[tuple[int, str], int] = {}
        """How many items of a map had ended when its counts were told last."""

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        self._run_id = self._run_id or event.run_id
        match event:
            case _ if event.run_id != self._run_id:
                pass
            case StepStarted() if event.path:
                self._names[event.round, event.step] = event.path
            case StepEnded() if event.outcome.path:
                self._names[event.round, event.step] = event.outcome.path
                inside = self._tokens.setdefault((event.round, event.outcome.plan_step), {})
                inside[event.outcome.path] = event.outcome.usage.total_tokens
                if (name := self._map_of(event.round, event.outcome.path)) is not None:
                    self._items(event.round, name).take(event.outcome)
            case FanOut(kind="items") if self._map_of(event.round, event.path) is None:
                self._items(event.round, event.path or str(event.step)).total = event.known

    def path(self, event: StepStarted | StepDelta | StepEnded | AttemptFailed | AnswerDelta) -> str:
        """Return the name of an execution inside of a map or a block; empty for a step of the plan."""
        is_own = event.run_id == self._run_id
        return self._names.get((event.round or 0, event.step or 0), "") if is_own else ""

    def name(self, event: StepStarted | StepDelta | StepEnded | AttemptFailed | AnswerDelta) -> str:
        """Return the name of the step of an event; see `Outcome.name`."""
        return self.path(event) or str(event.step)

    def tokens(self, outcome: Outcome) -> int:
        """Return the tokens of a step, with those of the executions inside of it."""
        inside = {} if outcome.path else self._tokens.get((outcome.round, outcome.step), {})
        return outcome.usage.total_tokens + sum(inside.values())

    def is_in_map(self, event: Event) -> bool:
        """Return whether an event is of an execution inside of a map."""
        if not isinstance(event, StepStarted | StepDelta | StepEnded | AttemptFailed):
            return False
        return self._map_of(event.round, self.path(event)) is not None

    def counts(self, event: Event) -> str:
        """Return the counts of a map at its start, and after each further tenth of its items; else empty."""
        if not isinstance(event, FanOut | StepEnded):
            return ""
        name = self._map_of(event.round, event.path if isinstance(event, FanOut) else event.outcome.path)
        place = event.round, name or (isinstance(event, FanOut) and event.path) or str(event.step)
        items = self._maps.get(place)
        if items is None or not items.total:
            return ""
        if items.ended - self._told.get(place, -items.total) < max(_PART * items.total, 1):
            return ""
        self._told[place] = items.ended
        return f"step {place[1]}: {items.told()}"

    def _items(self, number: int, name: str) -> Executions:
        return self._maps.setdefault((number, name), Executions(name))

    def _map_of(self, number: int, path: str) -> str | None:
        """Return the name of the outermost map around an execution; `None` without one."""
        for at, sign in enumerate(path):
            if sign == "[" or (sign == "(" and (number, path[:at]) in self._maps):
                return path[:at]
        return None


class Progress:
    """The texts about the events of one run.

    Args:
        show: what the reader sees.
        run_id: the run; by default the run of the first event. Events of nested runs have no text.
    """

    def __init__(self, show: Literal["none", "steps", "all"], run_id: str = "") -> None:
        self._show = show
        self._run_id = run_id
        self._workers: tuple[str, ...] = ()
        self._answers: tuple[int, ...] = ()
        """The steps of the current plan of which one gives the answer."""
        self._maps = Maps()
        self._speaking: tuple[int, int] | None = None
        """Step and attempt of the output that was shown last."""
        self._streamed: set[int] = set()
        """The steps of the current plan whose output was shown while it was written."""

    def text(self, event: Event) -> str:
        """Return the text for an event; empty if it has none."""
        self._run_id = self._run_id or event.run_id
        if self._show == "none" or event.run_id != self._run_id:
            return ""
        if isinstance(event, RunStarted | RunResumed):
            self._workers = event.workers
        self._maps.take(event)
        if counts := self._maps.counts(event):
            return self._line(f"{counts[0].upper()}{counts[1:]}.")
        return "" if self._maps.is_in_map(event) else scrub(self._told(event))

    def _told(self, event: Event) -> str:
        match event:
            case PlanReady():
                self._answers = event.plan.answers
                self._streamed.clear()
                by = f"{event.planner}{' (fallback)' if event.is_fallback else ''}"
                return self._line(f"Plan by {by}:", *plan_lines(event.plan, self._workers))
            case StepDelta() if self._show == "all" and event.step not in self._answers:
                self._streamed.add(event.step)
                return self._output(event, event.text)
            case StepEnded() if event.step in self._answers and event.outcome.status == "ok":
                # its output is the answer, which the reader has begun to read
                is_other = event.outcome.stands_for is not None
                return self._line(f"Step {event.step}: {event.outcome.end}.") if is_other else ""
            case _ if line := self._line_of(event):
                return self._whole(event) + self._line(line)
        return ""

    def _whole(self, event: Event) -> str:
        """Return the output of a step that has ended, if it was not shown while it was written."""
        if not isinstance(event, StepEnded) or self._show != "all" or event.step in self._streamed:
            return ""
        return self._output(event, event.outcome.text) if event.outcome.text else ""

    def _output(self, event: StepDelta | StepEnded, text: str) -> str:
        """Return a piece of the output of a step, after a title if another step was shown before."""
        speaking = event.step, event.attempt
        if speaking == self._speaking:
            return text
        title = self._line(f"Step {self._maps.name(event)} writes:")
        self._speaking = speaking
        return title + text

    def _line(self, *lines: str) -> str:
        begin = "\n" if self._speaking is not None else ""
        self._speaking = None
        return begin + "".join(f"{line}\n" for line in lines)

    def _line_of(self, event: Event) -> str:
        """Return the line for an event; empty if it has none."""
        match event:
            case RoundStarted() if event.round > 1:
                return f"Round {event.round}{': ' if event.why else ''}{event.why}"
            case ApprovalAsked():
                told = event.told[0].upper() + event.told[1:]
                return f"{told}{': ' if event.asked else ''}{event.asked}."
            case StepStarted() | AttemptFailed() | StepEnded() if line := self._of_step(event):
                return f"Step {self._maps.name(event)}: {line}."
        return ""

    def _of_step(self, event: StepStarted | AttemptFailed | StepEnded) -> str:
        """Return the text about a step; empty for its first call."""
        match event:
            case StepStarted():
                return f"call {event.attempt}, of {event.worker}" if event.attempt > 1 else ""
            case AttemptFailed():
                why = "" if event.call.problem is None else f" ({event.call.problem.code})"
                return f"a call of {event.call.worker} failed{why}{_charge(event.call)}"
            case StepEnded(outcome=outcome):
                why = f" ({outcome.problem.code})" if outcome.problem is not None else ""
                if outcome.stands_for is not None:
                    return outcome.end
                by = f"{outcome.worker}, {self._maps.tokens(outcome):,} tokens, {outcome.seconds:.1f} s"
                return "" if outcome.is_paused else f"{outcome.end}{why} ({by}){_charge(outcome)}"


def _charge(call: Call | Outcome) -> str:
    """Return what a call is charged for, if its usage was not reported."""
    words = UNREPORTED.get(call.charged)
    return "" if words is None else f", {words}"
