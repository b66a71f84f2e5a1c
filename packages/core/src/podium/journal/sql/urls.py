"""Parses the locations of databases: URLs and paths."""

import re
from pathlib import Path
from urllib.parse import parse_qs, unquote

from platformdirs import user_state_path

from podium.errors import ConfigError
from podium.installing import install_hint
from podium.journal.sql.database import DatabaseUrl
from podium.journal.sql.sqlite import SqliteUrl
from podium.secrets import register

Location = str | Path | DatabaseUrl | None
"""A URL, the path of an SQLite file, or `None` for the SQLite file in the user's state directory."""

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # one slash, because `Path` joins the two slashes of a URL
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:,@/?#]*)(?::[0-9]+)?"
_POSTGRES = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<name>/[^@/?#]*)?(?:\?(?P<options>[^#]*))?"
)

_SECRET_OPTIONS = ("password", "sslpassword")


def database_url(location: Location) -> DatabaseUrl:
    """Return the database at a location.

    Raises:
        ConfigError: the location is invalid, or needs a package that is not installed.
    """
    if isinstance(location, DatabaseUrl):
        return location
    if location is None:
        return SqliteUrl(user_state_path("podium", appauthor=False) / "journal.db")
    if isinstance(location, Path):
        if _SCHEME.match(location.as_posix()):
            raise ConfigError("the path of the journal is a URL: pass it as str, not as Path")
        return SqliteUrl(location)
    scheme, separator, rest = location.partition("://")
    if not separator:
        raise ConfigError(
            "the location of the journal is an invalid URL: "
            "write sqlite:///runs.db or postgresql://user:password@host/name"
        )
    if scheme == "sqlite":
        return _sqlite(rest)
    if scheme in ("postgresql", "postgres"):
        return _postgres(location)
    raise ConfigError(f"a journal needs SQLite or PostgreSQL, not {scheme!r}")


def _sqlite(rest: str) -> DatabaseUrl:
    if "?" in rest:
        raise ConfigError(
            "the URL of an SQLite file has options: remove the question mark and the text after it"
        )
    host, _, path = rest.partition("/")
    if host:
        raise ConfigError(
            "the URL of an SQLite file has a host: write three slashes, as in sqlite:///runs.db"
        )
    return SqliteUrl(Path(path))


def _postgres(url: str) -> DatabaseUrl:
    found = _POSTGRES.fullmatch(url)
    if found is None:  # the error does not quote the URL, which may have a password
        raise ConfigError(
            "the URL of the PostgreSQL database is malformed: "
            "write postgresql://user:password@host:port/name, "
            "and percent-encode special characters of user and password"
        )
    options = parse_qs(found["options"] or "")
    secrets = [found["password"] or "", unquote(found["password"] or "")]
    for name in _SECRET_OPTIONS:
        secrets += options.get(name, ())
    for secret in filter(None, secrets):
        register(secret)
    try:
        from podium.journal.sql.postgres import PostgresUrl  # noqa: PLC0415  (the driver is an extra)
    except ImportError as error:
        raise ConfigError(f"PostgreSQL needs asyncpg: {install_hint('core[postgres]')}") from error
    user = "" if found["user"] is None else found["user"] + (":***@" if found["password"] else "@")
    return PostgresUrl(url, f"postgresql://{user}{found['hosts']}{found['name'] or ''}")
