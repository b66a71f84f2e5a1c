"""The statements that find the runs of a list, newest first.

A list of all runs is read in the order of the runs, and a list of the runs of an API key in the order of the
requests of the key. So each list reads an index, and a rare key is as fast as a frequent one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from podium.journal.sql.database import marks
from podium_server.api.runs.forms import RunSummary, State

Value = str | float | int
Statement = tuple[str, Sequence[Value]]
Place = tuple[float, str]
"""The place of a run in a list: a time, and the id of the run."""

_FIRST_KEY = "(SELECT key_id FROM podium_turns WHERE run_id = run.run_id ORDER BY began LIMIT 1)"
_IS_FIRST_TURN = """
NOT EXISTS (
    SELECT 1 FROM podium_turns AS earlier WHERE earlier.run_id = turn.run_id AND earlier.key_id = turn.key_id
    AND (earlier.began, earlier.turn_id) < (turn.began, turn.turn_id)
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs to list."""

    key_id: str | None = None
    """The API key that began the run; `None` for all."""
    model: str | None = None
    status: Sequence[State] = ()
    label: str | None = None
    search: str | None = None
    """Text in the question, the model or the id, in any case; `None` for all."""
    since: float | None = None
    until: float | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether runs must be read to know if they fit."""
        return bool(self.status) or not (self.model is self.label is self.search is None)

    def fits(self, run: RunSummary) -> bool:
        """Return whether a run has the wanted model, status, label and text."""
        if self.model is not None and run.model != self.model:
            return False
        if self.status and run.status not in self.status:
            return False
        if self.label is not None and self.label not in run.labels:
            return False
        texts = (run.question, run.model, run.id)
        return self.search is None or any(self.search.lower() in text.lower() for text in texts)


class RunQuery:
    """Builds the statements of one list.

    Args:
        wanted: which runs.
        has_keys: whether runs belong to API keys.
    """

    def __init__(self, wanted: Wanted, *, has_keys: bool) -> None:
        self._wanted = wanted
        self._is_of_key = has_keys and wanted.key_id is not None
        self._key = _FIRST_KEY if has_keys else "NULL"
        self._began = "turn.began" if self._is_of_key else "run.began"
        self._order = f"ORDER BY {self._began} DESC, run.run_id DESC"
        if self._is_of_key:
            self._order = "ORDER BY turn.began DESC, turn.run_id DESC"

    def place(self, run_id: str) -> Statement:
        """Return the query for the place of a run."""
        if self._is_of_key:
            query = "SELECT min(began) AS began FROM podium_turns WHERE run_id = ? AND key_id = ?"
            return query, [run_id, str(self._wanted.key_id)]
        return "SELECT began FROM podium_runs WHERE run_id = ?", [run_id]

    def last(self, after: Place | None, count: int) -> Statement:
        """Return the query for the place of the last of the next `count` runs, whether they fit or not."""
        which, values = self._which(after)
        query = (
            f"SELECT {self._began} AS began, run.run_id FROM {self._source()} "  # noqa: S608 - no value from outside
            f"WHERE {' AND '.join(which)} {self._order} LIMIT 1 OFFSET {count - 1}"
        )
        return query, values

    def heads(self, after: Place | None, last: Place | None, limit: int) -> Statement:
        """Return the query for the next runs that may fit, with their first records and keys.

        Args:
            after: the place before the first run; `None` for the beginning.
            last: the place of the last run to look at; `None` for the end.
            limit: maximum number of runs.
        """
        which, values = self._which(after)
        if last is not None:
            which.append(f"({self._began}, run.run_id) >= (?, ?)")
            values += last
        for test, more in _may_fit(self._wanted):
            which.append(test)
            values += more
        query = (
            f"SELECT run.run_id, {self._began} AS began, event.text, {self._key} AS key_id "  # noqa: S608 - as above
            f"FROM {self._source()} CROSS JOIN podium_events AS event "
            f"WHERE event.run_id = run.run_id AND event.number = 0 AND {' AND '.join(which)} "
            f"{self._order} LIMIT {limit}"
        )
        return query, values

    def queued(self, after: Place | None, last: Place | None) -> tuple[list[str], list[Value]]:
        """Return the conditions for runs in the queue between two places, and their values."""
        which, values = list[str](), list[Value]()
        for test, place in (("<", after), (">=", last)):
            if place is not None:
                which.append(f"(created, job_id) {test} (?, ?)")
                values += place
        for test, bound in (("created >= ?", self._wanted.since), ("created <= ?", self._wanted.until)):
            if bound is not None:
                which.append(test)
                values.append(bound)
        if self._is_of_key:
            which.append("caller_id = ?")
            values.append(str(self._wanted.key_id))
        return which, values

    def _source(self) -> str:
        # SQLite keeps the order of a cross join
        return (
            "podium_turns AS turn CROSS JOIN podium_runs AS run" if self._is_of_key else "podium_runs AS run"
        )

    def _which(self, after: Place | None) -> tuple[list[str], list[Value]]:
        which, values = ["run.parent IS NULL"], list[Value]()
        if self._is_of_key:
            which += ["turn.key_id = ?", "run.run_id = turn.run_id", _IS_FIRST_TURN]
            values.append(str(self._wanted.key_id))
        if after is not None:
            run_id = "turn.run_id" if self._is_of_key else "run.run_id"
            which.append(f"({self._began}, {run_id}) < (?, ?)")
            values += after
        for test, bound in (("run.began >= ?", self._wanted.since), ("run.began <= ?", self._wanted.until)):
            if bound is not None:
                which.append(test)
                values.append(bound)
        return which, values


def _may_fit(wanted: Wanted) -> list[Statement]:
    """Return conditions that all runs that fit fulfil, and most others do not."""
    found: list[Statement] = []
    if wanted.status:
        states = {*wanted.status, *(("running",) if "stopped" in wanted.status else ())}  # without a process
        found.append((f"run.state IN {marks(len(states))}", sorted(states)))
    if wanted.model is not None and _is_plain(wanted.model):
        found.append(("event.text LIKE ? ESCAPE '!'", [_like(f'"conductor":"{wanted.model}"')]))
    if wanted.label is not None and _is_plain(wanted.label):
        found.append(("event.text LIKE ? ESCAPE '!'", [_like(f'"{wanted.label}"')]))
    if wanted.search is not None and _is_plain(wanted.search):
        text = _like(wanted.search.lower())
        model = _like('"conductor":"')[:-1] + text
        tests = [f"lower({name}) LIKE ? ESCAPE '!'" for name in ("run.question", "run.run_id", "event.text")]
        found.append((f"({' OR '.join(tests)})", [text, text, model]))
    return found


def _is_plain(text: str) -> bool:
    """Return whether both databases and JSON treat a text as Python does."""
    return text.isascii() and text.isprintable() and json.dumps(text) == f'"{text}"'


def _like(text: str) -> str:
    """Return the pattern for texts that contain a text; `!` escapes the wildcards."""
    for each in "!%_":
        text = text.replace(each, f"!{each}")
    return f"%{text}%"
