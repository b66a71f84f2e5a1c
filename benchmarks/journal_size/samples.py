"""Records a few real runs, and makes any number of runs from them, with other ids, times and hashes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from uuid import UUID

from podium import ChatPlanner, Conductor, ScriptedWorker
from podium.errors import WorkerUnavailable
from podium.execution import Retry
from podium.journal import Record, RunRow, SqlJournal
from podium.journal.journal import link
from podium.planners import FixedPlanner
from podium_server.turn.earlier import NamedRun

KEYS = 100
DAYS = 30
"""The runs began evenly during these days before now."""
RARE = 10_000
"""One run of so many has the label `rare`."""
NAMED = 10
"""One run of so many has an idempotency key."""
_QUESTION = "Question 00000000: how tall is the tower, how old is it, and who has built it? "
_ANSWER = "The tower is 330 metres tall, it was opened in 1889, and a company of engineers has built it. "
_ONE = '{"worker": 0, "subtask": "Answer the question.", "access": []}'
_THREE = "\n".join(
    f'{{"worker": 0, "subtask": "{told}", "access": {access}}}'
    for told, access in (("Say how tall it is.", []), ("Say how old it is.", []), ("Join both.", [0, 1]))
)
_SHARES = ("one",) * 13 + ("three",) * 5 + ("nested", "failed")
"""The kinds of 20 runs, one after the other."""

Cells = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A recorded run, with the runs nested in it first."""

    runs: Sequence[tuple[RunRow, Sequence[Record]]]

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the runs."""
        return [row.run_id for row, _ in self.runs]


@dataclass(frozen=True, slots=True)
class Made:
    """The rows of one made run and of the runs nested in it."""

    run_id: str
    began: float
    runs: Sequence[Cells]
    events: Sequence[Cells]


async def record() -> dict[str, Sample]:
    """Record one run of each kind."""
    worker = ScriptedWorker("facts", _ANSWER)
    down = ScriptedWorker("down", WorkerUnavailable("the server answered 503"))
    team = Conductor(FixedPlanner(_ONE), [worker])
    conductors = {
        "one": Conductor(FixedPlanner(_ONE), [worker]),
        "three": Conductor(ChatPlanner(ScriptedWorker("boss", _THREE)), [worker]),
        "nested": Conductor(FixedPlanner(_ONE), [team]),
        "failed": Conductor(FixedPlanner(_ONE), [down], retry=Retry(attempts=1)),
    }
    with TemporaryDirectory() as folder:
        journal = SqlJournal(Path(folder) / "samples.db")
        return {kind: await _record(journal, conductor) for kind, conductor in conductors.items()}


async def _record(journal: SqlJournal, conductor: Conductor) -> Sample:
    recorded = Conductor(
        conductor.planner, list(conductor.pool.workers), journal=journal, retry=conductor.retry
    )
    run_id = (await recorded.run(_QUESTION)).run_id
    rows = (*await journal.runs(parent=run_id), *await journal.runs(ids=[run_id]))
    return Sample([(row, await journal.records(row.run_id)) for row in rows])


def made(samples: dict[str, Sample], count: int) -> Iterator[Made]:
    """Yield `count` runs, oldest first."""
    now = time()
    for number in range(count):
        began = now - DAYS * 86400 * (1 - number / count)
        yield _made(samples[_SHARES[number % len(_SHARES)]], number, began)


def _made(sample: Sample, number: int, began: float) -> Made:
    changed = {"00000000": f"{number:08}"}
    changed |= {each: run_id_of(number, part) for part, each in enumerate(reversed(sample.ids))}
    if number % RARE == RARE // 2:
        changed['"labels":[]'] = '"labels":["rare"]'
    runs, events = list[Cells](), list[Cells]()
    for row, records in sample.runs:
        run_id, before, at = changed[row.run_id], "0" * 64, began
        for record in records:
            text = record.text
            for old, new in changed.items():
                text = text.replace(old, new)
            at = began + (record.at - row.began)
            before = link(before, run_id, record.number, at, text)
            changed[record.hash] = before
            events.append((run_id, record.number, at, text, before))
        parent = None if row.parent is None else changed[row.parent]
        question = row.question.replace("00000000", changed["00000000"])
        runs.append((run_id, parent, question, row.state, began, at, row.cost, None, run_id, 0))
    return Made(changed[sample.ids[-1]], began, runs, events)


def run_id_of(number: int, part: int = 0) -> str:
    """Return the id of a made run; `part` above 0 is for runs nested in it."""
    if number % NAMED == 3 and not part:
        return NamedRun("caller", f"request {number}", "fingerprint").run_id
    mixed = (number * 8 + part + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128
    return UUID(int=mixed).hex
