"""The tables a journal is kept in, the same in every database, and the versions they came in."""

from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
    update,
)

from podium.errors import JournalBroken

METADATA = MetaData()

RUNS = Table(
    "podium_runs",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("parent", Text),
    Column("question", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("began", Double, nullable=False),
    Column("ended", Double),
    Column("cost", Double),
    Column("holder", Text),
    Column("fence", Text, nullable=False),  # made anew when the run is taken; an old one is refused
    Column("recoveries", Integer, nullable=False),
    Index("podium_runs_began", "began"),
    Index("podium_runs_parent", "parent"),
)
EVENTS = Table(
    "podium_events",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("text", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
HOLDERS = Table(
    "podium_holders",
    METADATA,
    Column("holder", Text, primary_key=True),
    Column("until", Double, nullable=False),  # when its lease runs out, by the database's clock
)
CACHE = Table(
    "podium_cache",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Column("text", Text, nullable=False),
)
PAIRS = Table(
    "podium_pairs",
    METADATA,
    Column("pair_id", Text, primary_key=True),
    Column("shadow", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("text", Text, nullable=False),
    Index("podium_pairs_at", "at"),
)
TALLIES = Table(
    "podium_tallies",
    METADATA,
    Column("tally_id", Text, primary_key=True),
    Column("shadow", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("text", Text, nullable=False),
)

_VERSIONS = MetaData()
_VERSION = Table("podium_schema", _VERSIONS, Column("version", Integer, nullable=False))

STEPS: tuple[Callable[[Connection], None], ...] = (
    partial(METADATA.create_all, tables=[RUNS, EVENTS, HOLDERS, CACHE]),
    partial(METADATA.create_all, tables=[PAIRS, TALLIES]),
)
"""What makes version n + 1 of version n; later ones say in full what they change."""


def is_newest(connection: Connection) -> bool:
    """Say whether the tables are there, of the newest version."""
    if not inspect(connection).has_table(_VERSION.name):
        return False
    return bool(connection.scalar(select(_VERSION.c.version)) == len(STEPS))


def upgrade(connection: Connection, steps: Sequence[Callable[[Connection], None]] = STEPS) -> None:
    """Bring the tables to the newest version, in a transaction that no other upgrade shares.

    Raises:
        JournalBroken: they are of a newer version than this.
    """
    _VERSIONS.create_all(connection)
    found = connection.scalar(select(_VERSION.c.version))
    version = found or 0
    if version > len(steps):
        raise JournalBroken(
            f"the journal is of version {version}, and this Podium knows {len(steps)}: use a newer Podium"
        )
    for step in steps[version:]:
        step(connection)
    if found is None:
        connection.execute(insert(_VERSION).values(version=len(steps)))
    elif version < len(steps):
        connection.execute(update(_VERSION).values(version=len(steps)))
