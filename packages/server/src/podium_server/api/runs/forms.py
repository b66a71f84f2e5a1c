"""The JSON forms of runs, also of those that have not begun: they wait in the queue, or failed there."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, Field

from podium.budget import Charged
from podium.journal import Entry, RunRow
from podium.journal.journal import shortened
from podium.run_state import fold
from podium.types import (
    Action,
    ApprovalAsked,
    Event,
    Message,
    Outcome,
    Problem,
    Proposal,
    Result,
    Round,
    RunResumed,
    RunStarted,
)
from podium.types.steps import step_at, worker_of
from podium.usage import Usage
from podium_server.api.runs.requests import JobRequest, State
from podium_server.jobs.table import StoredJob


class RunSummary(BaseModel):
    """A run in a list."""

    object: Literal["run"] = "run"
    id: str
    model: str = Field(description="The name of the model; empty if the run was not made by a model.")
    status: State = Field(
        description="`queued` runs wait in the queue; `stopped` runs can be resumed; `waiting` runs wait for "
        "an approval; `dead` runs stopped too often because their process died."
    )
    created: float = Field(description="When the run began, in seconds of Unix time.")
    ended: float | None = Field(description="When it last ended or stopped.")
    cost: float | None = Field(
        description="In USD; of a stopped run, what it spent until then. Null if unknown, or while it runs."
    )
    key_id: str | None = Field(description="The API key that began the run.")
    labels: list[str]
    question: str = Field(
        description="The first characters of the saved plan with its arguments, and of the question."
    )
    recoveries: int = Field(description="How often the run was continued after its process had died.")
    parent: str | None = Field(description="The run in which this run is nested.")


class RunList(BaseModel):
    """A page of runs, the newest first."""

    object: Literal["list"] = "list"
    data: list[RunSummary]
    has_more: bool
    next: str | None = Field(description="`after` of the next page; null if there is none.")


class PlannerBill(BaseModel):
    """One call of a planner."""

    planner: str
    role: str
    usage: Usage
    cost: float | None
    maybe_paid: bool
    charged: Charged = Field(description="What the cost is computed from.")
    seconds: float
    problem: Problem | None


class RunRound(BaseModel):
    """One plan of a run, and its steps."""

    number: int
    why: str
    planner: dict[str, Any] | None
    plan: dict[str, Any] | None = Field(description="The plan; its workers are numbers in `workers`.")
    proposals: list[PlannerBill] = Field(description="The calls of the planner.")
    steps: list[Outcome] = Field(
        description="How each step ended, with its usage, cost and calls; then executions inside of maps and "
        "blocks, which have a `path`."
    )
    check: Outcome | None = Field(description="The call that judged the answer.")


class RunDetail(RunSummary):
    """A run with its plans, steps, bills and problems."""

    query: list[dict[str, Any]]
    answer: str
    tool_calls: list[dict[str, Any]]
    problem: Problem | None
    waits_for: dict[str, Any] | None = Field(
        description="The round and the plan that wait for an approval; with `actions`, only these steps of "
        "the plan wait, or items that they would start (`is_fan_out`), or an answer to their `question`."
    )
    actions: list[Action] = Field(
        description="What the run and its nested runs have done, or begun. `end` is `done`, `failed`, or "
        "`unknown`, until a person decides."
    )
    workers: list[str]
    rounds: list[RunRound]
    usage: Usage
    estimated_usage: Usage = Field(description="The part of `usage` that was estimated.")
    maybe_paid: bool = Field(description="Whether part of the cost may not be billed.")
    usage_note: str | None = Field(
        description="How many calls are charged without a reported usage; null if none are."
    )
    usage_by_worker: dict[str, Usage]
    cost_by_worker: dict[str, float | None]
    seconds: float
    recalls: str | None = Field(description="The run that this run replays.")
    user: str = Field(description="The end user, as the client named it; empty for none, and in the queue.")
    events: int = Field(description="The number of recorded events.")
    hash: str = Field(description="The hash of the last recorded event.")


def summary_facts(row: RunRow, started: RunStarted, key_id: str | None) -> dict[str, Any]:
    """Return the fields of `RunSummary`."""
    return {
        "id": row.run_id,
        "model": started.conductor,
        "status": row.state,
        "created": row.began,
        "ended": row.ended,
        "cost": row.cost,
        "key_id": key_id,
        "labels": sorted(started.labels),
        "question": row.question,
        "recoveries": row.recoveries,
        "parent": row.parent,
    }


def detail(
    row: RunRow, entries: Sequence[Entry], nested: Sequence[Sequence[Event]], key_id: str | None
) -> RunDetail:
    """Return a run in the form of `GET /v1/runs/{run_id}`."""
    events = [entry.event for entry in entries]
    result, started = fold(events, nested).result(), events[0]
    assert isinstance(started, RunStarted)
    facts = summary_facts(row, started, key_id) | {"cost": result.cost}
    return RunDetail(**facts, **_result_facts(result, events, started), hash=entries[-1].hash)


def _result_facts(result: Result, events: Sequence[Event], started: RunStarted) -> dict[str, Any]:
    asked = fold(events).waiting
    is_open = events[-1].type not in ("run_ended", "run_stopped")
    return {
        "query": [message.to_wire() for message in (*started.query, *started.tool_messages)],
        "answer": result.answer,
        "tool_calls": [dict(call) for call in result.tool_calls],
        "problem": None if is_open else result.problem,
        "waits_for": _waiting(asked, result.workers),
        "actions": list(result.actions),
        "workers": list(result.workers),
        "rounds": [_round(current) for current in result.rounds],
        "usage": result.usage,
        "estimated_usage": result.estimated_usage,
        "maybe_paid": result.maybe_paid,
        "usage_note": result.usage_note or None,
        "usage_by_worker": result.usage_by_worker,
        "cost_by_worker": result.cost_by_worker,
        "seconds": result.seconds,
        "recalls": started.recalls,
        "user": started.user,
        "events": len(events),
    }


def _waiting(asked: Sequence[ApprovalAsked], workers: Sequence[str]) -> dict[str, Any] | None:
    if not asked:
        return None
    plan = asked[-1].plan
    actions = [
        {
            "step": each.step,
            "path": each.path,
            "is_fan_out": each.is_fan_out,
            "worker": worker_of(step_at(each.plan.steps, each.name), workers),
            "asked": each.asked,
            "question": None if each.question is None else asdict(each.question),
        }
        for each in asked
        if each.step is not None
    ]
    waits = {"round": asked[-1].round, "plan": plan.to_json()}
    return {**waits, "actions": actions} if actions else waits


def _round(current: Round) -> RunRound:
    planner = current.planner
    return RunRound(
        number=current.number,
        why=current.why,
        planner=None
        if planner is None
        else {"name": planner.name, "why": planner.why, "is_fallback": planner.is_fallback},
        plan=None if current.plan is None else current.plan.to_json(),
        proposals=[_bill(proposal) for proposal in current.proposals],
        steps=list(current.outcomes),
        check=current.check,
    )


def _bill(proposal: Proposal) -> PlannerBill:
    names = ("planner", "role", "usage", "cost", "maybe_paid", "charged", "seconds", "problem")
    return PlannerBill(**{name: getattr(proposal, name) for name in names})


def workers_of(events: Sequence[Event]) -> Sequence[str]:
    """Return the names of the workers to which the plans of a run refer."""
    return next((e.workers for e in reversed(events) if isinstance(e, RunStarted | RunResumed)), ())


KIND = "run"
"""The kind of the jobs of runs."""
CANCELLED = {"code": "cancelled", "message": "the run was cancelled before it began"}


def queued_row(job: StoredJob) -> RunRow:
    """Return a run of the queue in the form of the journal's runs."""
    return RunRow(
        run_id=job.job_id,
        parent=None,
        question=_question(_request(job)),
        state=_state(job),
        began=job.created,
        ended=None,
        cost=None,
        holder=job.holder or None,
        recoveries=0,
    )


def queued_summary(job: StoredJob) -> RunSummary:
    """Return a run of the queue in the form of `GET /v1/runs`."""
    return RunSummary(**_facts(job))


def queued_detail(job: StoredJob) -> RunDetail:
    """Return a run of the queue in the form of `GET /v1/runs/{run_id}`."""
    request = _request(job)
    problem = None if job.error is None else Problem(job.error["code"], job.error["message"])
    return RunDetail(
        **_facts(job),
        query=[] if request is None else request.query,
        answer="",
        tool_calls=[],
        problem=problem,
        waits_for=None,
        actions=[],
        workers=[],
        rounds=[],
        usage=Usage(),
        estimated_usage=Usage(),
        maybe_paid=False,
        usage_note=None,
        usage_by_worker={},
        cost_by_worker={},
        seconds=0.0,
        recalls=None if request is None else request.of,
        user="",
        events=0,
        hash="",
    )


def queued_event(job: StoredJob) -> dict[str, Any]:
    """Return what a stream of events sends while a run waits; it is not recorded."""
    facts = queued_row(job)
    request = _request(job)
    told = {"model": "" if request is None else request.model, "question": facts.question}
    return {"type": "run_queued", "run_id": job.job_id, "at": 0.0, "created": job.created, **told}


def _facts(job: StoredJob) -> dict[str, Any]:
    """Return the fields of `RunSummary`."""
    request = _request(job)
    return {
        "id": job.job_id,
        "model": "" if request is None else request.model,
        "status": _state(job),
        "created": job.created,
        "ended": None,
        "cost": 0.0,
        "key_id": job.caller_id,
        "labels": [] if request is None else sorted(request.labels),
        "question": _question(request),
        "recoveries": 0,
        "parent": None,
    }


def _request(job: StoredJob) -> JobRequest | None:
    """Return what to do; `None` after a failure, which keeps only its error."""
    return None if job.error is not None else JobRequest.model_validate(job.request)


def _question(request: JobRequest | None) -> str:
    if request is None or not request.query:
        return ""
    return shortened(Message.from_wire(request.query[-1]).text)


def _state(job: StoredJob) -> State:
    if job.error is None:
        return "queued"
    return "stopped" if job.error["code"] == CANCELLED["code"] else "failed"
