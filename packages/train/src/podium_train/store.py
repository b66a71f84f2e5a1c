"""The database of a reward service: outcomes of plans, and the money spent.

A record is complete or absent after `kill -9`. Money that was reserved for a plan whose process died stays
reserved, because the plan may have been billed.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Self

from podium.errors import ConfigError
from podium_train.environments import PlanOutcome

_NANO = 10**9
_MOST = 2**62
_FACTS = ("score", "cost", "calls", "tokens", "outputs")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS outcomes (key TEXT PRIMARY KEY, outcome TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledger (one INTEGER PRIMARY KEY CHECK (one = 1), nano INTEGER NOT NULL);
INSERT OR IGNORE INTO ledger VALUES (1, 0);
"""


class RewardStore:
    """Outcomes by key, and a ledger in billionths, so that sums are exact. Close it after use."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        with self._errors():
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            # Used by one event loop, which may run in another thread than the one that makes the store.
            self._database = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=30,
                isolation_level=None,
                check_same_thread=False,
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __len__(self) -> int:
        """Return the number of outcomes."""
        (count,) = self._database.execute("SELECT count(*) FROM outcomes").fetchone()
        return int(count)

    def outcome(self, key: str) -> PlanOutcome | None:
        """Return a stored outcome."""
        row = self._database.execute("SELECT outcome FROM outcomes WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        facts = json.loads(row[0])
        return PlanOutcome(**{**facts, "outputs": tuple(facts["outputs"])})

    @property
    def spent(self) -> float:
        """What was spent, and what is reserved for plans in execution or was when their process died."""
        (nano,) = self._database.execute("SELECT nano FROM ledger").fetchone()
        return float(nano / _NANO)

    def reserve(self, amount: float, *, budget: float) -> bool:
        """Reserve money. Return false, and reserve nothing, if the total would exceed the budget."""
        wanted, most = _nano(amount), min(int(budget * _NANO), _MOST)
        with self._errors():
            done = self._database.execute(
                "UPDATE ledger SET nano = nano + ? WHERE nano + ? <= ?", (wanted, wanted, most)
            )
        return done.rowcount == 1

    def settle(self, key: str, outcome: PlanOutcome | None, *, reserved: float) -> None:
        """Replace a reservation by the cost, and store the outcome, in one transaction.

        An unknown cost counts as the reservation.
        """
        cost = reserved if outcome is None or outcome.cost is None else outcome.cost
        with self._errors(), self._transaction():
            self._database.execute("UPDATE ledger SET nano = nano + ?", (_nano(cost) - _nano(reserved),))
            if outcome is not None:
                facts = {name: getattr(outcome, name) for name in _FACTS}
                self._database.execute(
                    "INSERT OR REPLACE INTO outcomes VALUES (?, ?)", (key, json.dumps(facts))
                )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:  # in any case: no transaction may stay open
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"the database of rewards {self._path} cannot be used: {error}; name another file, or delete "
                "it"
            ) from error


def _nano(amount: float) -> int:
    return min(ceil(amount * _NANO), _MOST)
