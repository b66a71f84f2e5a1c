"""The queries that the code makes on a journal and on the tables of a server, each as one function."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import randrange
from time import time
from uuid import uuid4

from benchmarks.journal_size.samples import NAMED, run_id_of
from podium.cli.arguments import find_run
from podium.errors import RunUnknown
from podium.journal import SqlCache, SqlJournal
from podium.types import Completion, Result, RunEnded, RunStarted
from podium_server.api.runs.query import RunIndex, Wanted
from podium_server.jobs.table import JobTable, Line, new_job
from podium_server.keys import Key, KeyStore
from podium_server.keys.account import Amounts, Bill
from podium_server.keys.ledger import Bid, Housekeeping, Ledger
from podium_server.turn.earlier import NamedRun

Query = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Opened:
    """An opened database with `runs` made runs."""

    journal: SqlJournal
    cache: SqlCache
    jobs: JobTable
    keys: KeyStore
    ledger: Ledger
    housekeeping: Housekeeping
    index: RunIndex
    line: Line
    runs: int
    some_keys: list[Key] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def run_id(self) -> str:
        """Return the id of another recorded run each time, without those that a test of deletion deletes."""
        number = self.runs // 3 + next(self._numbers) * 7919 % (self.runs // 2)
        return run_id_of(number + (number % NAMED == 3))


@asynccontextmanager
async def opened(url: str, runs: int) -> AsyncIterator[Opened]:
    """Open a filled database."""
    journal = SqlJournal(url)
    keys, jobs = KeyStore(journal), JobTable(journal)
    ledger = Ledger(keys)
    made = Opened(
        journal=journal,
        cache=SqlCache(url),
        jobs=jobs,
        keys=keys,
        ledger=ledger,
        housekeeping=Housekeeping(keys, ledger, journal),
        index=RunIndex(journal, jobs, has_keys=True),
        line=Line(),
        runs=runs,
    )
    async with AsyncExitStack() as stack:
        for each in (journal, made.cache, jobs, ledger):
            await stack.enter_async_context(each)
        made.some_keys = sorted(await keys.keys(), key=lambda key: int(key.name.split()[1]))
        yield made
        await jobs.release_all(ledger.lease.holder)


def queries(at: Opened) -> Mapping[str, Query]:
    """Return the queries by name."""
    journal, index = at.journal, at.index
    middle, oldest = time() - 15 * 86400.0, time() - 31 * 86400.0

    async def record() -> None:
        run_id = uuid4().hex
        log = await journal.begin(RunStarted(run_id=run_id, at=0.0, workers=()), minted=True)
        log.append(RunEnded(run_id=run_id, at=0.1, result=Result(run_id=run_id, answer="yes", status="ok")))
        await log.aclose()

    async def claim() -> None:
        await (await journal.claim(at.run_id())).aclose()

    async def page(wanted: Wanted, after: str | None = None) -> None:
        found = await index.page(wanted, limit=50, after=after)
        while len(found.runs) < 50 and found.next is not None:  # as a client that wants 50 runs
            found = await index.page(wanted, limit=50 - len(found.runs), after=found.next)

    async def keyed() -> None:
        key, run_id = at.some_keys[1], uuid4().hex
        bid = Bid(turn_id=uuid4().hex, key=key, run_id=run_id, cost=1000, tokens=10)
        await at.ledger.admit(bid)
        at.ledger.settle(Bill(turn_id=bid.turn_id, key=key, run=Amounts(500, 10, 10)))

    async def job() -> None:
        made, lease = new_job(uuid4().hex, "run", "key", {}), at.ledger.lease
        await at.jobs.add(made, "")
        await at.line.look(lease, 1)
        await at.jobs.release(made.job_id, lease.holder)
        await at.line.look(lease, 1)
        await at.jobs.remove(made.job_id, lease.holder)

    async def put() -> None:
        await at.cache.put(uuid4().hex, Completion("yes"))

    async def delete() -> None:
        with suppress(RunUnknown):  # deleted by an earlier measurement
            await journal.delete(run_id_of(randrange(at.runs * 9 // 10, at.runs)))

    deep, rare = at.run_id(), at.some_keys[0].key_id
    named = run_id_of(at.runs // 2 // NAMED * NAMED + 3)
    return {
        "record a run": record,
        "records of a run": lambda: journal.records(at.run_id()),
        "claim a run": claim,
        "latest 50 runs": journal.runs,
        "latest 50 runs with nested": lambda: journal.runs(nested=True),
        "runs since 12 h, 50": lambda: journal.runs(since=time() - 43200.0),
        "prefix of 12 characters": lambda: find_run(journal, at.run_id()[:12]),
        "unknown prefix": lambda: journal.runs(prefix="nothing", limit=3, nested=True),
        "whole id": lambda: find_run(journal, at.run_id()),
        "nested runs": lambda: journal.nested(at.run_id()),
        "idempotency: run": lambda: journal.runs(prefix=named[:-24], limit=2),
        "idempotency: job": lambda: at.jobs.ids(NamedRun("caller", uuid4().hex, "").prefix),
        "list: first page": lambda: page(Wanted()),
        "list: page inside": lambda: page(Wanted(), deep),
        "list: until the middle": lambda: page(Wanted(until=middle)),
        "list: key with 1 % of the runs": lambda: page(Wanted(key_id=at.some_keys[1].key_id)),
        "list: key with 0.1 % of the runs": lambda: page(Wanted(key_id=rare)),
        "list: key without runs": lambda: page(Wanted(key_id="nobody")),
        "list: status failed (5 %)": lambda: page(Wanted(status=("failed",))),
        "list: status stopped (none)": lambda: page(Wanted(status=("stopped",))),
        "list: label of 0.01 %": lambda: page(Wanted(label="rare")),
        "list: search of one run": lambda: page(Wanted(search=f"question {at.runs // 2:08}")),
        "list: search since 12 h": lambda: page(Wanted(search="none", since=time() - 43200.0)),
        "cache: get": lambda: at.cache.get(uuid4().hex),
        "cache: put": put,
        "cache: prune nothing": lambda: at.cache.prune(31 * 86400.0),
        "ledger: admit, settle": keyed,
        "ledger: expired": at.housekeeping.settle_expired,
        "ledger: forget nothing": at.housekeeping.forget_expired,
        "jobs: add, look, take, release, remove": job,
        "delete a run": delete,
        "prune nothing": lambda: journal.prune(time() - oldest),
        "prune the oldest 100": lambda: _prune_oldest(at, 100),
    }


async def _prune_oldest(at: Opened, number: int) -> None:
    query = "SELECT began + 1 AS late FROM podium_runs WHERE parent IS NULL ORDER BY began LIMIT ?"
    rows = await at.jobs.transaction(lambda each: each.fetch(query, number), reads=True)
    if rows:
        await at.journal.prune(time() - rows[-1]["late"])
