"""A server with `keep_days` deletes old runs, and all that belongs to them."""

from pathlib import Path
from typing import Any

import openai
import pytest
from server.scene import ASKED, both, config, keys_in, until
from servers.chat_server import ChatServer
from servers.podium_server import serving

from podium.aio import run_sync
from podium.journal import SqlCache
from podium.types import Completion
from podium_server.keys import KeyStore

_TABLES = ("podium_runs", "podium_events", "podium_turns", "podium_cache")
_DAYS = "SELECT * FROM podium_key_days"


def execute(url: str, statement: str) -> None:
    run_sync(lambda: KeyStore(url).transaction(lambda each: each.execute(statement)))


def fetch(url: str, query: str) -> Any:
    return run_sync(lambda: KeyStore(url).transaction(lambda each: each.fetch(query), reads=True))


def counts(url: str) -> list[int]:
    """Return the number of rows of each table."""
    query = "SELECT count(*) AS count FROM {}"
    return [fetch(url, query.format(name))[0]["count"] for name in _TABLES]


@pytest.mark.long
@both
def test_a_server_forgets(upstream: ChatServer, url: str, tmp_path: Path) -> None:
    with serving(config(upstream.url, url), tmp_path, keys_in(url)) as served:
        key = served.key()
        old, young = (served.client(key).responses.create(model="podium", input=ASKED) for _ in range(2))
    run_sync(lambda: SqlCache(url).put("old", Completion("yes")))
    execute(url, "UPDATE podium_cache SET at = 1.0")
    before, days = counts(url), fetch(url, _DAYS)
    assert (before[0], before[2]) == (2, 2)
    for change in ("podium_runs SET ended = ended - 172800,", "podium_turns SET"):
        where = f"WHERE run_id = '{old.id.removeprefix('resp_')}'"
        execute(url, f"UPDATE {change} began = began - 172800 {where}")
    with serving(config(upstream.url, url, server="keep_days = 1"), tmp_path, keys_in(url)) as served:
        client = served.client(key)
        assert until(lambda: counts(url)[3] == 0)  # the last that is deleted
        (run,) = served.http(key).get("/runs").json()["data"]
        assert f"resp_{run['id']}" == young.id
        assert client.responses.retrieve(young.id).output_text == young.output_text
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(old.id)
    assert counts(url) == [1, before[1] / 2, 1, 0]
    assert fetch(url, _DAYS) == days
