"""The pages of filtered lists have each run that fits once, wherever the pages begin and end."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from core.journal.happenings import ended, started, stopped

from podium.journal import SqlJournal
from podium_server.api.runs import query as run_query
from podium_server.api.runs.query import RunIndex, Wanted
from podium_server.jobs.table import JobTable
from podium_server.keys import KeyStore

pytestmark = pytest.mark.anyio
MODELS = ("podium", "mini", 'odd "model"')
LABELS = ("eu", "100%", "ö")
_TURN = """
INSERT INTO podium_turns (turn_id, key_id, run_id, day, cost, holder, began, forget_at)
VALUES (?, ?, ?, '2026-11-23', 0, NULL, ?, NULL)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> SqlJournal:
    """Return an empty journal."""
    place = tmp_path / "runs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return SqlJournal(place)


async def record(journal: SqlJournal, store: KeyStore) -> None:
    """Record runs of several models, labels, states and keys; some have two requests, some are nested."""
    for number in range(24):
        first = started(f"run{number:02}", question=f"Question {number} on Öl, 5_5 and 50%?")
        label = LABELS[number % 4 : number % 4 + 1]
        first = replace(first, conductor=MODELS[number % 3], labels=frozenset(label))
        log = await journal.begin(first, minted=True)
        log.append((stopped if number % 5 == 0 else ended)(first.run_id))
        await log.aclose()
        inner = await journal.begin(started(f"in{number}", parent=(first.run_id, 1, 0, 1)), minted=True)
        await inner.aclose()
        (row,) = await journal.runs(ids=[first.run_id])
        for again in range(1 + number % 2):
            turn = (f"turn{number}.{again}", f"key{number % 3}", first.run_id, row.began + 0.001 * again)
            await store.transaction(lambda each, turn=turn: each.execute(_TURN, *turn))


WANTED = [
    *(Wanted(model=each) for each in (*MODELS, "none", "pod%")),
    *(Wanted(label=each) for each in (*LABELS, "1_0%", "e")),
    *(Wanted(status=each) for each in (("stopped",), ("ok",), ("running",), ("ok", "stopped"), ("queued",))),
    *(Wanted(search=each) for each in ("question 7", "RUN1", "öl", "5_5", "50%", "MINI", '"', "nothing")),
    Wanted(model="podium", label="eu", status=("ok",), search="question"),
    Wanted(),
]


@pytest.mark.long
async def test_pages_of_filtered_lists(journal: SqlJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each filter, with and without a key, the pages together are what the filter describes."""
    monkeypatch.setattr(run_query, "_LOOKED_AT", 5)
    monkeypatch.setattr(run_query, "_SECONDS", 0.0)
    store, table = KeyStore(journal.url), JobTable(journal)
    async with journal, store, table:
        await record(journal, store)
        index = RunIndex(journal, table, has_keys=True)
        every = (await index.page(Wanted(), limit=100, after=None)).runs
        assert [run.id for run in every] == [f"run{number:02}" for number in reversed(range(24))]
        assert [run.key_id for run in every[:3]] == ["key2", "key1", "key0"]
        for wanted, key in product(WANTED, (None, "key1", "nobody")):
            filtered = replace(wanted, key_id=key)
            fits = [run.id for run in every if wanted.fits(run) and key in (None, run.key_id)]
            found, after = list[str](), None
            for _ in range(50):
                page = await index.page(filtered, limit=4, after=after)
                assert len(page.runs) <= 4
                found += [run.id for run in page.runs]
                after = page.next
                if after is None:
                    break
            assert found == fits, filtered
