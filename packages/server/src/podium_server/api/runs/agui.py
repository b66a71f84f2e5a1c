"""The events of a run in the form of AG-UI (https://docs.ag-ui.com).

A run of Podium is a run and a thread of AG-UI. Its state is a document, which `STATE_DELTA` changes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from podium.errors import RunFailed
from podium.types import (
    ApprovalAsked,
    ApprovalGiven,
    Event,
    PlanReady,
    Problem,
    Result,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
    StepEnded,
    StepStarted,
)

_CANCELLED = "cancelled"
"""The problem of a run that was stopped."""
AgUi = dict[str, Any]
"""An event as JSON data."""


class AgUiEvents:
    """Translates the events of one run, in their order.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._workers: Sequence[str] = ()
        self._open: list[str] = []
        """Names of the steps that have started and not ended."""
        self._last: Event | None = None

    def of(self, event: Event) -> Iterator[AgUi]:
        """Yield the events for the next event of the run; the last event of the run waits for `end`."""
        self._last = event
        match event:
            case RunStarted():
                self._workers = event.workers
                yield self._event("RUN_STARTED", threadId=self._run_id, runId=self._run_id)
                state = {"status": "running", "round": 0, "plan": None, "steps": {}}
                yield self._event("STATE_SNAPSHOT", snapshot=state)
            case RunResumed():
                self._workers = event.workers
                yield from self._closed()
                yield self._changed(status="running")
            case RoundStarted():
                yield self._changed(round=event.round)
            case PlanReady():
                yield self._changed(plan=self._plan(event), steps={})
            case ApprovalAsked():
                yield self._changed(status="waiting")
            case ApprovalGiven():
                value = {"round": event.round, "approved": event.approved, "by": event.by, "why": event.why}
                yield self._event("CUSTOM", name="approval_given", value=value)
            case StepStarted() | StepEnded():
                yield from self._of_step(event)

    def _of_step(self, event: StepStarted | StepEnded) -> Iterator[AgUi]:
        match event:
            case StepStarted():
                name = _name(event)
                yield self._step(event.step, worker=event.worker, status="running", round=event.round)
                if name not in self._open:
                    self._open.append(name)
                    yield self._event("STEP_STARTED", stepName=name)
            case StepEnded(outcome=outcome):
                name = _name(event)
                facts: dict[str, Any] = {
                    "worker": outcome.worker,
                    "status": outcome.status,
                    "round": event.round,
                }
                yield self._step(event.step, **facts, output=outcome.text, cost=outcome.cost)
                if name in self._open:
                    self._open.remove(name)
                    yield self._event("STEP_FINISHED", stepName=name)

    def end(self) -> Iterator[AgUi]:
        """Yield the events for the end of the run."""
        yield from self._closed()
        match self._last:
            case RunEnded(result=result):
                yield from self._ended(result)
            case RunStopped(problem=stop) if stop.code == _CANCELLED:
                yield self._changed(status="stopped")
                yield self._finished({"type": "cancelled"})
            case RunStopped(problem=stop):
                yield self._changed(status="stopped")
                yield self._event("RUN_ERROR", message=stop.message, code=stop.code)
            case _:
                told = "the process of the run has ended: the run can be resumed"
                yield self._event("RUN_ERROR", message=told, code="stopped")

    def _ended(self, result: Result) -> Iterator[AgUi]:
        if result.answer:
            message = {"messageId": f"{self._run_id}-answer"}
            yield self._event("TEXT_MESSAGE_START", **message, role="assistant")
            yield self._event("TEXT_MESSAGE_CONTENT", **message, delta=result.answer)
            yield self._event("TEXT_MESSAGE_END", **message)
        yield self._changed(status=result.status)
        if result.status == "waiting":
            told = "" if result.problem is None else result.problem.message
            interrupt = {"id": self._run_id, "reason": "approval", "message": told}
            yield self._finished({"type": "interrupt", "interrupts": [interrupt]})
        elif result.status == "failed":
            problem = result.problem or Problem(RunFailed.code, "the run has no answer")
            yield self._event("RUN_ERROR", message=problem.message, code=problem.code)
        else:
            yield self._finished({"type": "success"}, status=result.status)

    def _finished(self, outcome: dict[str, Any], **result: Any) -> AgUi:
        ids = {"threadId": self._run_id, "runId": self._run_id}
        return self._event("RUN_FINISHED", **ids, outcome=outcome, **({"result": result} if result else {}))

    def _closed(self) -> Iterator[AgUi]:
        """Yield the ends of the steps that were interrupted."""
        for name in self._open:
            yield self._event("STEP_FINISHED", stepName=name)
        self._open = []

    def _plan(self, event: PlanReady) -> dict[str, Any]:
        steps = [
            {"worker": self._worker(step.worker), "subtask": step.subtask, "access": step.access_list}
            for step in event.plan.steps
        ]
        return {"round": event.round, "planner": event.planner, "steps": steps}

    def _worker(self, number: int) -> str:
        return self._workers[number] if number < len(self._workers) else str(number)

    def _step(self, step: int, **facts: Any) -> AgUi:
        change = {"op": "add", "path": f"/steps/{step}", "value": facts}
        return self._event("STATE_DELTA", delta=[change])

    def _changed(self, **facts: Any) -> AgUi:
        changes = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in facts.items()]
        return self._event("STATE_DELTA", delta=changes)

    def _event(self, kind: str, **facts: Any) -> AgUi:
        return {"type": kind, **facts}


def _name(event: StepStarted | StepEnded) -> str:
    return f"round {event.round}, step {event.step}"
