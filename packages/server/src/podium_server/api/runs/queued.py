"""Shows runs that have not begun: they wait in the queue, or failed there."""

from typing import Any

from podium.journal import RunRow
from podium.journal.journal import shortened
from podium.types import Message, Problem
from podium.usage import Usage
from podium_server.api.runs.forms import RunDetail, RunSummary, State
from podium_server.api.runs.requests import JobRequest
from podium_server.jobs.table import StoredJob

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
