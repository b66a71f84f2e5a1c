"""The parts of the runs API."""

from podium.journal import SqlJournal
from podium_server.api.runs.actions import RunActions
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.jobs import Jobs
from podium_server.api.runs.route import RunsApi
from podium_server.api.runs.store import RunStore
from podium_server.http import InFlight
from podium_server.keys import Access
from podium_server.turn import Turns


class RunParts:
    """The parts of the runs API.

    Args:
        journal: records the runs.
        turns: admits runs.
        access: knows which caller began a run.
        in_flight: counts the runs in the background.
        has_keys: whether runs belong to API keys.
    """

    def __init__(
        self, journal: SqlJournal, turns: Turns, access: Access, in_flight: InFlight, *, has_keys: bool
    ) -> None:
        self.store = RunStore.beside(journal)
        index = RunIndex(journal, self.store, has_keys=has_keys)
        self.jobs = Jobs(self.store, index, turns, access, in_flight)
        self.api = RunsApi(index, self.store, access)
        self.actions = RunActions(self.api, self.jobs, turns, access, journal, self.store)
