"""Shows runs that have not begun: they wait in the queue, or failed there."""

from podium.journal import RunRow
from podium.types import Problem
from podium.usage import Usage
from podium_server.api.runs.forms import RunDetail, State
from podium_server.api.runs.job import CANCELLED
from podium_server.api.runs.requests import JobRequest
from podium_server.jobs.table import StoredJob


def queued_row(job: StoredJob) -> RunRow:
    """Return a run of the queue in the form of the journal's runs."""
    return RunRow(
        run_id=job.job_id,
        parent=None,
        question="",
        state=_state(job),
        began=job.created,
        ended=None,
        cost=None,
        holder=job.holder or None,
        recoveries=0,
    )


def queued_detail(job: StoredJob) -> RunDetail:
    """Return a run of the queue in the form of `GET /v1/runs/{run_id}`."""
    request = JobRequest.model_validate(job.request) if job.error is None else None
    problem = None if job.error is None else Problem(job.error["code"], job.error["message"])
    return RunDetail(
        id=job.job_id,
        model="" if request is None else request.model,
        status=_state(job),
        created=job.created,
        ended=None,
        cost=0.0,
        key_id=job.caller_id,
        labels=[] if request is None else sorted(request.labels),
        question="",
        recoveries=0,
        parent=None,
        query=[] if request is None else request.query,
        answer="",
        tool_calls=[],
        problem=problem,
        waits_for=None,
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
        events=0,
        hash="",
    )


def _state(job: StoredJob) -> State:
    if job.error is None:
        return "queued"
    return "stopped" if job.error["code"] == CANCELLED["code"] else "failed"
