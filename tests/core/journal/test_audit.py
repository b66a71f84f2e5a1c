"""The chain of hashes, what it shows, and runs as lines of JSON."""

from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256

import pytest
from core.journal.happenings import course, started, step_ended
from hypothesis import given, strategies as st

from podium.errors import JournalBroken, RunUnknown
from podium.journal import Journal, MemoryJournal, Record, export, verify_lines, verify_runs
from podium.journal.audit import read_lines
from podium.journal.journal import ROOT, link, verify

pytestmark = pytest.mark.anyio


def chained(*texts: str) -> list[Record]:
    """Return records of texts, well linked."""
    records: list[Record] = []
    for number, text in enumerate(texts):
        head = link(records[-1].hash if records else ROOT, "r", number, 0.1 * number, text)
        records.append(Record(run_id="r", number=number, at=0.1 * number, text=text, hash=head))
    return records


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)))))
def test_an_untouched_chain_holds(texts: list[str]) -> None:
    """Nothing is found where nothing was done."""
    assert verify(chained(*texts)) is None


def test_the_hash_of_a_record_is_what_the_format_says() -> None:
    """Whoever audits an export computes it anew, in any language."""
    first = link(ROOT, "r", 0, 0.5, "é")
    assert first == sha256(("0" * 64 + "\nr\n0\n0.5\né").encode()).hexdigest()
    assert link(first, "r", 1, 1e-07, "") == sha256(f"{first}\nr\n1\n1e-07\n".encode()).hexdigest()


@given(st.data())
def test_every_record_of_a_chain_is_verified(data: st.DataObject) -> None:
    """Wherever one record is changed, dropped, doubled or moved, the first wrong place is named."""
    records = chained(*data.draw(st.lists(st.sampled_from("abc"), min_size=2, max_size=9)))
    where = data.draw(st.integers(0, len(records) - 1))
    record, before, after = records[where], records[:where], records[where + 1 :]
    changed = [replace(record, text=record.text + "!"), replace(record, at=record.at + 1.0)]
    changed += [replace(record, hash="f" * 64), replace(record, number=where + 1)]
    for each in changed:
        assert _broken_at([*before, each, *after]) == where
    assert _broken_at([*before, record, record, *after]) == where + 1
    if after:
        assert _broken_at([*before, *after]) == where
        assert _broken_at([*before, *(replace(each, number=each.number - 1) for each in after)]) == where
        assert _broken_at([*before, *after, record]) == where


def _broken_at(records: list[Record]) -> int | None:
    found = verify(records)
    return None if found is None else found.number


@pytest.fixture
async def journal() -> AsyncIterator[Journal]:
    """Give a journal of two runs, one of them with a run nested in it."""
    async with MemoryJournal() as journal:
        for run_id, parent in (("one", None), ("two", None), ("inner", ("one", 1, 0, 1))):
            log = await journal.begin(started(run_id, parent=parent), minted=True)
            log.append(step_ended(run_id, 0, 'é\n","event":{}'))
            for event in course(run_id):
                log.append(event)
            await log.aclose()
        yield journal


async def lines_of(journal: Journal, *run_ids: str) -> list[str]:
    """Return what is exported."""
    return [line async for line in export(journal, run_ids or None)]


async def test_a_journal_holds(journal: Journal) -> None:
    """An untouched journal has no breaks; a run that is not there is said to be so."""
    assert await verify_runs(journal) == ()
    assert await verify_runs(journal, ["inner"]) == ()
    with pytest.raises(RunUnknown):
        await verify_runs(journal, ["three"])


async def test_exports_runs_whole(journal: Journal) -> None:
    """The newest run first, each followed by those nested in it; what is read back is what is kept."""
    lines = await lines_of(journal)
    assert all("\n" not in line for line in lines)
    runs = list(read_lines(lines))
    assert [records[0].run_id for records in runs] == ["two", "one", "inner"]
    assert list(runs[1]) == list(await journal.records("one"))
    assert [found for *_, found in verify_lines(f"{line}\r\n" for line in lines)] == [None, None, None]
    assert [run_id for run_id, *_ in verify_lines(await lines_of(journal, "two"))] == ["two"]
    with pytest.raises(RunUnknown):
        await lines_of(journal, "three")


@pytest.mark.parametrize(
    "line", ["x", "{}", "[]", '{"run_id":1,"number":0,"at":0,"hash":"","event":{}}', "\0", "9" * 9999]
)
def test_what_is_no_export_is_refused(line: str) -> None:
    """The line is named."""
    with pytest.raises(JournalBroken, match="line 2"):
        list(verify_lines(["", line]))
