"""A server with `keep_days` deletes old runs, and all that belongs to them."""

from pathlib import Path

import anyio
import openai
import pytest
from server.scene import ASKED, CONFIG
from servers.chat_server import ChatServer
from servers.podium_server import serving

from podium.aio import run_sync
from podium.journal import SqlCache, SqlJournal
from podium.types import Completion
from podium_server.keys import KeyAccess, KeyStore

_AGE = 2 * 86400.0
_AGED = (
    "UPDATE podium_runs SET began = began - ?, ended = ended - ? WHERE run_id = ?",
    "UPDATE podium_turns SET began = began - ? - 0 * ? WHERE run_id = ?",
)
_TABLES = ("podium_runs", "podium_events", "podium_turns", "podium_cache")


def age(url: str, run_id: str) -> None:
    tables = KeyStore(url)
    for statement in _AGED:
        run_sync(
            lambda statement=statement: tables.transaction(
                lambda each: each.execute(statement, _AGE, _AGE, run_id)
            )
        )


def counts(url: str) -> dict[str, int]:
    tables = KeyStore(url)
    found = {}
    for name in _TABLES:
        query = f"SELECT count(*) AS count FROM {name}"  # noqa: S608 - names from above
        (row,) = run_sync(lambda query=query: tables.transaction(lambda each: each.fetch(query), reads=True))
        found[name] = row["count"]
    return found


@pytest.mark.long
@pytest.mark.parametrize("url", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
def test_a_server_forgets(upstream: ChatServer, url: str, tmp_path: Path) -> None:
    text = CONFIG.format(url=upstream.url, models="", server="").replace('path = "runs.db"', f'url = "{url}"')
    journal = SqlJournal(url)
    with serving(text, tmp_path, KeyAccess(KeyStore(journal), journal=journal)) as served:
        key = served.key()
        old, young = (served.client(key).responses.create(model="podium", input=ASKED) for _ in range(2))
    run_sync(lambda: SqlCache(url).put("old", Completion("yes")))
    run_sync(lambda: SqlCache(url).transaction(lambda each: each.execute("UPDATE podium_cache SET at = 1.0")))
    before = counts(url)
    assert (before["podium_runs"], before["podium_turns"]) == (2, 2)
    age(url, old.id.removeprefix("resp_"))
    days = run_sync(
        lambda: KeyStore(url).transaction(lambda each: each.fetch("SELECT * FROM podium_key_days"))
    )
    text = text.replace("[server]", "[server]\nkeep_days = 1")
    with serving(text, tmp_path, KeyAccess(KeyStore(journal), journal=journal)) as served:
        client = served.client(key)
        run_sync(lambda: wait(url))
        (run,) = served.http(key).get("/runs").json()["data"]
        assert f"resp_{run['id']}" == young.id
        assert client.responses.retrieve(young.id).output_text == young.output_text
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(old.id)
    after = counts(url)
    assert {name: after[name] for name in _TABLES if name != "podium_events"} == {
        "podium_runs": 1, "podium_turns": 1, "podium_cache": 0,
    }  # fmt: skip
    assert after["podium_events"] * 2 == before["podium_events"]
    query = "SELECT * FROM podium_key_days"
    assert run_sync(lambda: KeyStore(url).transaction(lambda each: each.fetch(query))) == days


async def wait(url: str) -> None:
    """Wait until the last deletion has ended."""
    cache = SqlCache(url)
    with anyio.fail_after(10):
        while await cache.transaction(lambda each: each.fetch("SELECT 1 FROM podium_cache"), reads=True):  # noqa: ASYNC110 - of the server
            await anyio.sleep(0.05)
