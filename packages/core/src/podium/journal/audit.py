"""Verifies the hash chains of a journal, and yields its anchors.

The runs are read one after the other, each in a short transaction of its own. So an audit of any number of
runs needs little memory, delays no writer, and can be interrupted.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Sequence

from podium.errors import JournalBroken, RunUnknown
from podium.journal.answer_cache import Cache
from podium.journal.entry import Entry, RunRow
from podium.journal.families import Family, families, find
from podium.journal.hash_chain import Break, head_of
from podium.journal.journal import Journal
from podium.journal.verification import Anchor, Verifier, is_other_answer, wrong_row


async def verify_runs(
    journal: Journal,
    run_ids: Sequence[str] | None = None,
    *,
    anchors: Iterable[Anchor] = (),
    cache: Cache | None = None,
) -> tuple[Break, ...]:
    """Return the places where runs were changed after they were recorded; empty if there are none.

    The arguments and errors are those of `verify_each`.
    """
    verified = verify_each(journal, run_ids, anchors=anchors, cache=cache)
    return tuple([broken async for _, breaks in verified for broken in breaks])


async def verify_each(
    journal: Journal,
    run_ids: Sequence[str] | None = None,
    *,
    anchors: Iterable[Anchor] = (),
    cache: Cache | None = None,
    since: float | None = None,
    until: float | None = None,
) -> AsyncGenerator[tuple[Family, Sequence[Break]], None]:
    """Verify a journal, and yield the runs of each part with the places where they were changed.

    A part is a run with the runs nested in it, newest first. Breaks that concern no run of the journal have
    no runs.

    Args:
        journal: the journal.
        run_ids: the runs to verify, with the runs nested in them; `None` for all runs.
        anchors: earlier heads of the runs. With these, the audit finds runs that were deleted or shortened
            later. With `run_ids`, only the anchors of these runs are used. Without, all runs of the anchors
            are verified.
        cache: the cache from which the runs may have reused answers; `None` verifies no answers.
        since: with all runs, verify only those that began at this time or later, in seconds of Unix time.
        until: with all runs, verify only those that began at this time or earlier.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    known: defaultdict[str, list[Anchor]] = defaultdict(list)
    for anchor in anchors:
        known[anchor.run_id].append(anchor)
    async with journal:
        async for family in families(journal, run_ids, since=since, until=until):
            own = [anchor for row in family for anchor in known.pop(row.run_id, ())]
            yield family, await _verify_family(journal, family, own, cache)
        if run_ids is not None:
            return
        for run_id in list(known):
            row = await find(journal, run_id)  # it began before `since`, or while the others were read
            if row is None:
                yield (), tuple(Verifier(known[run_id]).missing())
            else:
                yield [row], await _verify_family(journal, [row], known[run_id], cache)
        if since is None and until is None:
            yield (), [Break(run_id, None, "its row is missing") for run_id in await journal.strays()]


async def _verify_family(
    journal: Journal, family: Family, anchors: Sequence[Anchor], cache: Cache | None
) -> Sequence[Break]:
    """Return the breaks of a run and of the runs nested in it."""
    first = family[0]
    verifier = Verifier(anchors)
    found = [await _verify_run(journal, verifier, row) for row in family]
    for missing in list(verifier.missing()):
        row = await find(journal, missing.run_id)  # it may have begun after the rows were read
        if row is not None:
            found.append(await _verify_run(journal, verifier, row))
        elif await find(journal, first.run_id) is not None:  # otherwise all of them were just deleted
            found.append(missing)
    if first.parent is not None and await find(journal, first.parent) is None:
        found.append(Break(first.run_id, None, f"its outer run {first.parent} is missing"))
    if verifier.reused and cache is not None:
        async with cache:
            for key, entries in verifier.reused.items():
                found += await _wrong_answers(cache, key, entries)
    return list(filter(None, found))


async def _verify_run(journal: Journal, verifier: Verifier, row: RunRow) -> Break | None:
    try:
        records = await journal.records(row.run_id)
        broken = verifier.take(records) if records else Break(row.run_id, None, "its records are missing")
        while broken is None and (broken := wrong_row(row, records)) is not None:
            before, row = row, await find(journal, row.run_id) or row
            if row == before:
                break
            broken, records = None, await journal.records(row.run_id)  # the run has continued
    except RunUnknown:  # just deleted
        verifier.forget(row.run_id)
        return None
    return broken


async def _wrong_answers(cache: Cache, key: str, entries: Sequence[Entry]) -> Sequence[Break]:
    """Return a break for each step that reused an answer that differs from the stored answer.

    If the answer was stored after the end of the step, a difference is not a break: the answer then replaces
    an answer that was pruned.
    """
    try:
        stored = await cache.stored(key)
    except JournalBroken:
        wrong = entries
    else:
        wrong = [] if stored is None else [each for each in entries if is_other_answer(each, stored)]
    told = f"the cached answer {key}, which the step reused, was changed"
    return [Break(each.run_id, each.number, told) for each in wrong]


async def anchors_of(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[Anchor, None]:
    """Yield the current heads of runs, newest run first, to be kept outside the journal.

    Args:
        journal: the journal.
        run_ids: the runs, with the runs nested in them; `None` for all runs.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    async with journal:
        async for family in families(journal, run_ids):
            for row in family:
                try:
                    head = head_of(await journal.records(row.run_id))
                except RunUnknown:  # just deleted
                    continue
                if head is not None:
                    yield Anchor(row.run_id, head)
