"""Describes the events of a run to the client: the plan, the steps, and with `all` also their outputs."""

from podium.budget.ledger import UNREPORTED
from podium.hosts.results import plan_lines
from podium.secrets import scrub
from podium.types import (
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
from podium_server.settings import Show


class Progress:
    """The texts about the events of one run.

    Args:
        show: what the client sees.
        run_id: the run; events of nested runs have no text.
    """

    def __init__(self, show: Show, run_id: str) -> None:
        self._show = show
        self._run_id = run_id
        self._workers: tuple[str, ...] = ()
        self._last = -1
        """Index of the last step of the current plan, whose output is the answer."""
        self._speaking: tuple[int, int] | None = None
        """Step and attempt of the output that was shown last."""
        self._streamed: set[int] = set()
        """The steps of the current plan whose output was shown while it was written."""

    def text(self, event: Event) -> str:
        """Return the text for an event; empty if it has none."""
        if self._show == "none" or event.run_id != self._run_id:
            return ""
        if isinstance(event, RunStarted | RunResumed):
            self._workers = event.workers
        return scrub(self._told(event))

    def _told(self, event: Event) -> str:
        match event:
            case PlanReady():
                self._last = len(event.plan.steps) - 1
                self._streamed.clear()
                by = f"{event.planner}{' (fallback)' if event.is_fallback else ''}"
                return self._line(f"Plan by {by}:", *plan_lines(event.plan, self._workers))
            case StepDelta() if self._show == "all" and event.step != self._last:
                self._streamed.add(event.step)
                return self._output((event.step, event.attempt), event.text)
            case StepEnded() if event.step == self._last and event.outcome.status == "ok":
                return ""  # its output is the answer, which the client has begun to read
            case _ if line := _line_of(event):
                return self._whole(event) + self._line(line)
        return ""

    def _whole(self, event: Event) -> str:
        """Return the output of a step that has ended, if it was not shown while it was written."""
        if not isinstance(event, StepEnded) or self._show != "all" or event.step in self._streamed:
            return ""
        return self._output((event.step, 0), event.outcome.text) if event.outcome.text else ""

    def _output(self, speaking: tuple[int, int], text: str) -> str:
        """Return a piece of the output of a step, after a title if another step was shown before.

        Args:
            speaking: step and attempt.
            text: the piece.
        """
        if speaking == self._speaking:
            return text
        title = self._line(f"Step {speaking[0]} writes:")
        self._speaking = speaking
        return title + text

    def _line(self, *lines: str) -> str:
        begin = "\n" if self._speaking is not None else ""
        self._speaking = None
        return begin + "".join(f"{line}\n" for line in lines)


def _line_of(event: Event) -> str:
    """Return the line for an event; empty if it has none."""
    match event:
        case RoundStarted() if event.round > 1:
            return f"Round {event.round}{': ' if event.why else ''}{event.why}"
        case ApprovalAsked():
            what = "The plan" if event.step is None else f"Step {event.step}"
            return f"{what} waits for approval{': ' if event.asked else ''}{event.asked}."
        case StepStarted() if event.attempt > 1:
            return f"Step {event.step}: call {event.attempt}, of {event.worker}."
        case AttemptFailed():
            why = "" if event.call.problem is None else f" ({event.call.problem.code})"
            return f"Step {event.step}: a call of {event.call.worker} failed{why}{_charge(event.call)}."
        case StepEnded():
            outcome = event.outcome
            why = f" ({outcome.problem.code})" if outcome.problem is not None else ""
            by = f"{outcome.worker}, {outcome.usage.total_tokens:,} tokens, {outcome.seconds:.1f} s"
            return f"Step {event.step}: {outcome.status}{why} ({by}){_charge(outcome)}."
    return ""


def _charge(call: Call | Outcome) -> str:
    """Return what a call is charged for, if its usage was not reported."""
    words = UNREPORTED.get(call.charged)
    return "" if words is None else f", {words}"
