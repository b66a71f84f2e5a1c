"""The parts of the APIs that need a journal: stored responses, runs, and runs in the background."""

from podium.journal import SqlJournal
from podium_server.api.endpoint import Service
from podium_server.api.responses.stored import KIND as RESPONSE, Responses, ResponseWork
from podium_server.api.runs.actions import RunActions
from podium_server.api.runs.costs import ForecastApi, SumsApi
from podium_server.api.runs.forms import KIND as RUN
from podium_server.api.runs.job import Deadlines, RunWork
from podium_server.api.runs.query import RunIndex
from podium_server.api.runs.route import RunsApi
from podium_server.jobs.jobs import Jobs
from podium_server.jobs.table import JobTable
from podium_server.keys import Access
from podium_server.turn import Turns


class Recorded:
    """The parts that need a journal.

    Args:
        journal: records the runs.
        table: has the runs in the background.
        turns: admits the runs.
        access: knows the callers.
        service: has the settings, and how far the stop of the server is.
        has_keys: whether runs belong to API keys.
    """

    def __init__(
        self,
        journal: SqlJournal,
        table: JobTable,
        turns: Turns,
        access: Access,
        service: Service,
        *,
        has_keys: bool,
    ) -> None:
        index = RunIndex(journal, table, has_keys=has_keys)
        self.responses = responses = Responses(journal, index, table)
        self.jobs = Jobs(
            table,
            {
                RUN: lambda job: RunWork(job, index=index, turns=turns, access=access),
                RESPONSE: lambda job: ResponseWork(
                    job, responses=responses, index=index, journal=journal, turns=turns, access=access
                ),
            },
            most=service.settings.background_runs,
            queued=service.settings.queued_runs,
            on_cancels=turns.running.cancel,
        )
        self.jobs.on_end = service.metrics.job_ended
        service.metrics.show_jobs(lambda: float(self.jobs.count))
        self.runs = RunsApi(index, table, access, service.stopping, turns.live, turns.catalogue)
        self.sums = SumsApi(table, has_keys=has_keys)
        self.forecast = ForecastApi(self.runs, index, journal)
        self.actions = RunActions(self.runs, self.jobs, turns, access, journal)
        self.deadlines = Deadlines(journal, table, self.actions.continue_late)
