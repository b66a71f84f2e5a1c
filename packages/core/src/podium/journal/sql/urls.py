"""Which database a journal's place names."""

from pathlib import Path

from platformdirs import user_state_path
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from podium.errors import ConfigError
from podium.journal.sql.database import Dialect, Synchronous

Place = str | Path | None


def dialect_of(place: Place, synchronous: Synchronous) -> Dialect:
    """Return the database that a place names.

    Raises:
        ConfigError: it names none, or one that is not known.
    """
    if place is None:
        place = user_state_path("podium", appauthor=False) / "journal.db"
    url = URL.create("sqlite", database=str(place)) if isinstance(place, Path) else _url_of(place)
    kind = url.get_backend_name()
    if kind == "sqlite":
        from podium.journal.sql.sqlite import Sqlite  # noqa: PLC0415

        return Sqlite(url, synchronous)
    if kind in ("postgresql", "postgres"):
        from podium.journal.sql.postgres import Postgres  # noqa: PLC0415

        return Postgres(url)
    raise ConfigError(f"a journal is kept in SQLite or PostgreSQL, not in {kind!r}")


def _url_of(place: str) -> URL:
    try:
        return make_url(place)
    except ArgumentError:
        raise ConfigError(
            "the journal's place is no URL: write it as in sqlite:///runs.db or postgresql://user:password@host/name"
        ) from None
