"""Runs that commit 745a65c7 has recorded: their workers, and what is done with each of them later."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from podium import ChatPlanner, Conductor, FunctionWorker, Limits, Plan, Result, Retry, Step
from podium.errors import PodiumError, WorkerUnavailable
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.replay import replay
from podium.run_state import fold
from podium.types import Completion
from podium.usage import Usage
from podium.workers import FREE, Card, Price, ScriptedWorker, Worker

FOLDER = Path(__file__).parent
JOURNAL = FOLDER / "journal.sql"
RESULTS = FOLDER / "results.json"
"""What the version that recorded the runs reads of them, and what comes of the cases."""

Reply = str | Exception | Callable[[], NoReturn]

PRICE = Price(input=1.0, output=10.0)
USAGE = Usage(2000, 100)
"""Of each answer, which costs 0.003 USD at this price. A call without a known end costs its reservation."""
QUICK = Retry(attempts=2, first_wait=0.001)
DOWN = WorkerUnavailable("it is down")

CHAIN = Plan((Step(0, "Find it."), Step(1, "Check it.", (0,)), Step(2, "Say it.", (1,))))
DIAMOND = Plan(
    (Step(0, "Find it."), Step(1, "Check it.", (0,)), Step(2, "Doubt it.", (0,)), Step(3, "Say it.", (1, 2)))
)
JOINED = Plan((Step(0, "Find it."), Step(1, "Check it."), Step(2, "Say it.", (0, 1))))
FIRST_ROWS = """\
{"worker": 0, "subtask": "Find it.", "access": []}
{"worker": 1, "subtask": "Check it.", "access": [0]}
{"worker": 2, "subtask": "Say it.", "access": [0, 1]}
"""
Make = Callable[..., Conductor]


class Team:
    """The scripted workers of one process.

    Args:
        replies: for some workers, what they answer in place of what they usually do; the last one again and
            again.
        seconds: for some workers, how long they take.
    """

    def __init__(self, replies: Mapping[str, Any] | None = None, seconds: Any = None) -> None:
        self._replies = replies or {}
        self._seconds = seconds or {}
        self._workers: list[ScriptedWorker] = []

    def worker(self, name: str, *usual: str, acts: bool = False) -> ScriptedWorker:
        """Return a new worker, which usually answers with its name."""
        script = list(self._replies.get(name, usual or (f"{name} said",)))

        def reply(_: object) -> Completion | Exception:
            said = script.pop(0) if len(script) > 1 else script[0]
            if isinstance(said, str):
                return Completion(said, usage=USAGE)
            return said if isinstance(said, Exception) else said()

        made = ScriptedWorker(Card(name=name, price=PRICE), reply, latency=self._seconds.get(name, 0.0))
        made.acts = acts
        self._workers.append(made)
        return made

    def workers(self, names: str) -> list[Worker]:
        return [self.worker(name, acts=name == "hand") for name in names.split()]

    @property
    def calls(self) -> dict[str, int]:
        """How often each worker was called, without those that were not."""
        names = (worker.card.name for worker in self._workers for _ in worker.requests)
        return dict(sorted(Counter(names).items()))


def _of(plan: Plan, names: str, team: Team, journal: SqlJournal, **options: Any) -> Conductor:
    """Return a conductor of a fixed plan and of workers with these names, of which `hand` acts."""
    return _fixed(plan, team.workers(names), journal, **options)


def _fixed(plan: Plan, pool: Sequence[Worker], journal: SqlJournal, **options: Any) -> Conductor:
    return Conductor(FixedPlanner(plan), pool, journal=journal, **{"retry": QUICK, **options})


_chain, _acting = partial(_of, CHAIN, "a b c"), partial(_of, CHAIN, "a hand c")
_diamond = partial(_of, DIAMOND, "a b c d")


def _planned(team: Team, journal: SqlJournal, **options: Any) -> Conductor:
    planner, pool = ChatPlanner(team.worker("boss", FIRST_ROWS)), team.workers("a b c")
    return Conductor(planner, pool, journal=journal, retry=QUICK, on_failure="replan", **options)


def _judged(team: Team, journal: SqlJournal) -> Conductor:
    return _planned(team, journal, limits=Limits(rounds=2), accept=team.worker("judge", "YES"))


def _nested(team: Team, journal: SqlJournal, *, acts: bool = False) -> Conductor:
    inmost = [team.worker("x"), team.worker("y", acts=acts), team.worker("z")]
    inner = Conductor(FixedPlanner(CHAIN), inmost, card=Card(name="team"), retry=QUICK)
    return _fixed(CHAIN, [team.worker("a"), inner, team.worker("c")], journal)


def _of_code(team: Team, journal: SqlJournal) -> Conductor:
    inner = Conductor(FixedPlanner(CHAIN), team.workers("x y z"), retry=QUICK)

    async def ask(_: object) -> str:
        return (await inner.run("What is in it?")).answer

    desk = FunctionWorker(ask, card=Card(name="desk", price=FREE))
    return _fixed(CHAIN, [team.worker("a"), desk, team.worker("c")], journal)


RUNS: dict[str, Make] = {
    "ok": _diamond,
    "killed": _diamond,
    "killed-twice": _diamond,
    "killed-planning": _planned,
    "replanned": _planned,
    "replanned-killed": _planned,
    "no-plan": _planned,
    "stand-in": partial(_planned, fallback_planner=FixedPlanner(CHAIN)),
    "retried": _chain,
    "retrying-killed": _chain,
    "fallback-killed": partial(_chain, retry=Retry(attempts=2, first_wait=0.001, fallbacks={"b": ("a",)})),
    "two-rounds": _judged,
    "two-rounds-killed": _judged,
    "nested-killed": _nested,
    "nested-acted-killed": partial(_nested, acts=True),
    "nested-acting-killed": partial(_nested, acts=True),
    "code-killed": _of_code,
    "acted-killed": _acting,
    "acting-killed": _acting,
    "plan-waits": partial(_chain, policy=Policy(approve="later")),
    "action-waits": partial(_acting, policy=Policy(approve="later", ask="actions")),
    "cancelled": _chain,
    "partial": _diamond,
    "failed": _chain,
    "limited": partial(_of, JOINED, "a b c"),
    "hedged": _chain,
    "hedging-killed": _chain,
}
"""For each recorded run, its conductor."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is done with a recorded run, in a copy of the journal."""

    run: str
    make: Make | None = None
    """Another conductor than that of the run."""
    replies: Mapping[str, Sequence[Reply]] = field(default_factory=dict)
    """See `Team`; by default all workers answer."""
    decide: Mapping[str, Any] | None = None
    """A decision before the run is resumed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `Conductor.resume`, or of `replay`."""
    replays: bool = False
    """Whether it is replayed instead of resumed."""

    async def carry_out(self, journal: SqlJournal) -> dict[str, Any]:
        team = Team(self.replies)
        async with journal, (self.make or RUNS[self.run])(team, journal) as conductor:
            try:
                if self.decide is not None:
                    await conductor.decide(self.run, **self.decide)
                if self.replays:
                    events = [entry.event for entry in await journal.read(self.run)]
                    result = await replay(conductor, events, **self.options)
                else:
                    result = await conductor.resume(self.run, **self.options)
            except PodiumError as error:
                return {"error": error.code, "calls": team.calls}
            return told(result) | {"calls": team.calls}


CHANGED = Plan((*CHAIN.steps[:2], Step(2, "Say it well.", (1,))))
OTHER_END = Plan((*DIAMOND.steps[:3], Step(3, "Say it well.", (1, 2))))
SHORTER = Plan((*DIAMOND.steps[:2], Step(3, "Say it.", (1,))))

CASES: dict[str, Case] = {name: Case(run=name) for name in RUNS} | {
    "ok, replayed": Case(run="ok", replays=True),
    "ok, replayed with another end": Case(run="ok", replays=True, options={"plan": OTHER_END}),
    "killed, a worker fails again": Case(run="killed", replies={"c": (DOWN,)}),
    "killed, another order of the pool": Case(run="killed", make=partial(_of, DIAMOND, "e d c b a")),
    "killed, a pool without a worker": Case(run="killed", make=partial(_of, DIAMOND, "a b c")),
    "killed, another plan": Case(run="killed", options={"plan": SHORTER}),
    "replanned, replayed": Case(run="replanned", replays=True),
    "two-rounds, replayed": Case(run="two-rounds", replays=True),
    "no-plan, again": Case(run="no-plan", replies={"boss": ("no plan",)}),
    "acting-killed, it was done": Case(run="acting-killed", decide={"action": 1, "done": True}),
    "acting-killed, it was not done": Case(run="acting-killed", decide={"action": 1, "done": False}),
    "plan-waits, approved": Case(run="plan-waits", decide={"approved": True, "by": "Ann"}),
    "plan-waits, changed": Case(run="plan-waits", decide={"approved": True, "plan": CHANGED}),
    "plan-waits, refused": Case(run="plan-waits", decide={"approved": False, "why": "too dear"}),
    "action-waits, approved": Case(run="action-waits", decide={"approved": True, "action": 1}),
    "action-waits, refused": Case(run="action-waits", decide={"approved": False, "action": 1}),
    "partial, refreshed": Case(run="partial", options={"refresh": True}),
    "partial, a worker fails again": Case(run="partial", replies={"c": (DOWN,)}),
    "limited, higher limits": Case(run="limited", options={"limits": Limits(calls=10)}),
}


def told(result: Result) -> dict[str, Any]:
    """Return what must stay the same of a result."""
    return {
        "status": result.status,
        "answer": result.answer,
        "problem": result.problem and result.problem.code,
        "cost": None if result.cost is None else round(result.cost, 6),
        "input tokens": result.usage.input_tokens,
        "output tokens": result.usage.output_tokens,
        "plans": [" ".join(step.subtask for step in plan.steps) for plan in result.plans],
        "planners": [f"{each.planner}: {_code(each.problem)}" for each in result.proposals],
        "steps": [_step(each) for each in result.outcomes],
        "actions": [f"{each.worker}: {each.end}" for each in result.actions],
    }


def _step(outcome: Any) -> str:
    calls = [f"{call.attempt} {call.worker} {_code(call.problem)}" for call in outcome.calls]
    more = f"; calls {', '.join(calls)}" if calls else ""
    place, reused = f"{outcome.round}.{outcome.step} {outcome.worker}", " again" if outcome.reused else ""
    return f"{place}: {outcome.status}{reused}, {_code(outcome.problem)}{more}"


def _code(problem: Any) -> str:
    return "fine" if problem is None else problem.code


def load(path: Path) -> Path:
    """Write the recorded journal to a new SQLite file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(JOURNAL.read_text("utf-8"))
    return path


async def read(journal: SqlJournal) -> dict[str, Any]:
    """Return what is read of each run that no run contains, without going on with it."""
    found = dict[str, Any]()
    async with journal:
        rows = await journal.runs(limit=None, nested=True)
        events = {row.run_id: [entry.event for entry in await journal.read(row.run_id)] for row in rows}
        for row in rows:
            if row.parent is None:
                nested = [events[other.run_id] for other in rows if other.parent == row.run_id]
                found[row.run_id] = {"state": row.state} | told(fold(events[row.run_id], nested).result())
    return found
