"""What must hold of every run, whatever its plans, workers, policies and limits, whenever it is stopped."""

import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import anyio
from core.actors import Actor, boss
from core.virtual_clock import on_virtual_clock
from hypothesis import given, strategies as st

from podium import Card, ChatPlanner, Conductor, Limits, Plan, Price, Result, Retry, Step
from podium.budget import Spend
from podium.budget.ledger import Ledger
from podium.errors import PlannerError, WorkerBroken, WorkerRefused, WorkerUnavailable
from podium.execution import OnFailure
from podium.execution.context import outer_run
from podium.hosts.results import answer_sources
from podium.plan_text import write_plan
from podium.types import (
    Completion,
    Event,
    PlannerStarted,
    PlanReady,
    Round,
    RunStarted,
    StepEnded,
    StepStarted,
)
from podium.usage import Usage
from podium.workers import FREE, Request, Worker

Way = Literal["ok", "refuses", "down", "cut", "breaks", "hangs"]
T = TypeVar("T")
TICK = 1 / 64
"""Latencies are whole multiples of it, in seconds."""
SECONDS = 40.0
PRICED = Price(input=1.0, output=2.0)
TOKENS = 100
"""Most tokens of an answer."""
QUESTION = "What?"


@dataclass(frozen=True)
class Script:
    """All that a run will meet."""

    plans: tuple[Plan, ...]
    """What the planner writes, round by round; then the last again."""
    ways: tuple[Way, ...]
    """How calls go, in the order in which they are made; then from the beginning."""
    ticks: tuple[int, ...]
    """How long they take, likewise."""
    tokens: tuple[int, ...]
    """What they write, likewise."""
    slots: tuple[int | None, ...]
    """Each worker's concurrency."""
    limits: Limits
    on_failure: OnFailure
    attempts: int
    nested: bool
    """Whether the last worker is a conductor of the others' kind."""
    shows_question: bool


@dataclass
class Stage:
    """Workers that play a script, and what they saw."""

    script: Script
    calls: int = 0
    running: int = 0
    peak: int = 0
    requests: list[Request] = field(default_factory=list)
    written: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """Each mark of a text, by the run, round and step that wrote it; `lost` marks what is no output."""

    def conductor(self) -> Conductor:
        script = self.script
        named = enumerate(script.slots)
        workers: list[Worker] = [self.worker(f"w{number}", slots) for number, slots in named]
        if script.nested:
            steps = (Step(0, "inner a"), Step(0, "inner b"), Step(0, "inner c", (0, 1)))
            plan = write_plan(Plan(steps), "rows")
            inner = [self.worker("in", 2)]
            limits, card = Limits(answer_tokens=TOKENS), Card(name="team", price=FREE)
            workers[-1] = Conductor(self.planner(plan), inner, limits=limits, card=card)
        planner = self.planner(*(write_plan(plan, "rows") for plan in script.plans))
        fallbacks = {"w0": ("w1",)} if len(workers) > 2 else {}
        retry = Retry(attempts=script.attempts, first_wait=0.1, fallbacks=fallbacks)
        options = {"on_failure": script.on_failure, "show_question": script.shows_question}
        return Conductor(planner, workers, limits=script.limits, retry=retry, **options)  # type: ignore[arg-type]

    def planner(self, *texts: str) -> ChatPlanner:
        """Return who writes these plans, each for a price and in no more tokens than are reserved for it."""
        planner = boss(*(Completion(text, usage=Usage(1_000, TOKENS)) for text in texts))
        planner.worker.card = Card(name="boss", price=PRICED)
        return planner

    def worker(self, name: str, slots: int | None) -> Actor:
        """Return one that plays the next call of the script whenever it is called; `w1` reads no prose."""
        worker = Actor(Card(name=name, price=PRICED, concurrency=slots), self.act)
        worker.reads_prose = name != "w1"
        return worker

    async def act(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        assert request.caller is not None
        self.requests.append(request)
        number, script, caller = self.calls, self.script, request.caller
        self.calls += 1
        way = script.ways[number % len(script.ways)]
        mark = f"<{'out' if way == 'ok' else 'lost'}{number}>"
        self.written[mark] = (caller.run_id, caller.round, caller.step)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await anyio.sleep(script.ticks[number % len(script.ticks)] * TICK)
            if way == "refuses":
                raise WorkerRefused(mark)
            if way == "down":
                raise WorkerUnavailable(mark)
            yield mark
            if way == "hangs":
                await anyio.sleep_forever()
            if way == "breaks":
                raise WorkerBroken(mark, maybe_paid=True)
            if way == "ok":
                tokens = script.tokens[number % len(script.tokens)]
                yield Completion(mark, usage=Usage(20, min(tokens, request.sampling.max_tokens or tokens)))
        finally:
            self.running -= 1

    @property
    def ledgers(self) -> list[Ledger]:
        outers = [outer for r in self.requests if (outer := outer_run(r.caller)) is not None]
        return list({id(outer.context.ledger): outer.context.ledger for outer in outers}.values())


@st.composite
def plans(draw: st.DrawFn, workers: int, *, later: bool = False) -> Plan:
    """Draw a plan of up to seven steps, some of which wait for some of their inputs or refer to them.

    Steps of a later round may be shown the round before.
    """
    steps: list[Step] = []
    count = draw(st.integers(1, 7))
    for index in range(count):
        seen = draw(st.sets(st.integers(0, index - 1), max_size=4)) if index else set()
        if index == count - 1:  # most plans have no step that nobody sees
            seen |= set(range(index)) - {used for step in steps for used in step.access}
        enough = draw(st.none() | st.integers(1, len(seen))) if seen else None
        subtask, previous = f"subtask {index}", later and draw(st.booleans())
        if seen and enough is None:
            subtask += "".join(f" {{{{{step}}}}}" for step in draw(st.sets(st.sampled_from(sorted(seen)))))
        steps.append(Step(draw(st.integers(0, workers - 1)), subtask, tuple(seen), enough, previous))
    return Plan(tuple(steps))


def seldom(tight: st.SearchStrategy[T], loose: T) -> st.SearchStrategy[T]:
    return st.integers(0, 3).flatmap(lambda draw: tight if draw == 3 else st.just(loose))


@st.composite
def limits(draw: st.DrawFn, rounds: int) -> Limits:
    return Limits(
        plan_steps=7,
        rounds=rounds,
        replans=draw(st.integers(1, 2)),
        steps=draw(seldom(st.integers(1, 12), 30)),
        calls=draw(seldom(st.integers(1, 15), 60)),
        input_tokens=draw(seldom(st.integers(3_000, 30_000), None)),
        output_tokens=draw(seldom(st.integers(100, 1_500), None)),
        cost=draw(seldom(st.integers(15, 120).map(lambda n: n / 10_000), None)),
        answer_tokens=TOKENS,
        concurrency=draw(st.integers(1, 8)),
        seconds=SECONDS,
        step_seconds=draw(st.sampled_from([1.0, 20.0])),
        attempt_seconds=draw(st.sampled_from([1.0, 5.0])),
    )


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    count = draw(st.integers(1, 3))
    policy = draw(st.sampled_from(["skip", "note", "replan", "fail"]))
    rounds = draw(st.integers(1, 3))
    first = draw(plans(count))
    later = [draw(st.sampled_from([first, draw(plans(count, later=True))])) for _ in range(rounds - 1)]
    ways = st.sampled_from(["ok", "ok", "ok", "ok", "refuses", "down", "cut", "breaks", "hangs"])
    return Script(
        plans=(first, *later),
        ways=tuple(draw(st.lists(ways, min_size=1, max_size=12))),
        ticks=tuple(draw(st.lists(st.integers(0, 64), min_size=1, max_size=12))),
        tokens=tuple(draw(st.lists(st.integers(1, TOKENS), min_size=1, max_size=5))),
        slots=tuple(draw(st.lists(st.none() | st.integers(1, 2), min_size=count, max_size=count))),
        limits=draw(limits(rounds)),
        on_failure=policy,  # type: ignore[arg-type]  # drawn from its values
        attempts=draw(st.integers(1, 3)),
        nested=draw(st.booleans()),
        shows_question=draw(st.booleans()),
    )


def perform(script: Script) -> tuple[Stage, list[Event], Result]:
    """Carry the run out and return all that was seen of it."""
    stage, events = Stage(script), list[Event]()
    with suppress(PlannerError):  # a run without a plan ends with an event, too
        on_virtual_clock(lambda: stage.conductor().run(QUESTION, on_event=events.append))
    return stage, events, events[-1].result


@given(scripts(), st.none() | st.integers(0, 400))
def test_what_was_set_aside_is_given_back(script: Script, ticks: int | None) -> None:
    """However a run ends, and whenever it is cancelled, its ledgers balance and nobody works any more."""
    stage = Stage(script)

    async def main() -> None:
        with anyio.move_on_after(SECONDS * 2 if ticks is None else ticks * TICK), suppress(PlannerError):
            await stage.conductor().run(QUESTION)
        assert stage.running == 0
        calls = stage.calls
        await anyio.sleep(100)
        assert stage.calls == calls

    on_virtual_clock(main)
    for ledger in stage.ledgers:
        assert ledger.reserved == Spend()


@given(scripts())
def test_every_run(script: Script) -> None:
    """It ends, keeps to limits and access lists, tells each end and each call once, and says what it is."""
    stage, events, result = perform(script)
    assert result.seconds <= SECONDS
    assert (result.status == "failed", result.problem is None) == (not result.answer, result.status == "ok")
    check_spending(stage)
    check_answer(result)
    check_shown(stage, events, script)
    check_ends(events, result)
    check_calls(stage, events, result)


def check_spending(stage: Stage) -> None:
    """Workers that keep to what was reserved for them never bring a run over any limit."""
    assert stage.peak <= stage.script.limits.concurrency * (1 + stage.script.nested)
    for ledger in stage.ledgers:
        spent, most = ledger.spent, ledger.limits
        assert spent.calls <= most.calls
        assert ledger.steps <= most.steps
        assert spent.input_tokens <= (most.input_tokens or spent.input_tokens)
        assert spent.output_tokens <= (most.output_tokens or spent.output_tokens)
        assert (spent.cost or 0.0) <= (most.cost or spent.cost or 0.0)


def check_answer(result: Result) -> None:
    """`ok` means that each step behind the answer ended well and was shown all that it needs."""
    planned = [current for current in result.rounds if current.plan is not None and current.plan.steps]
    lasts = [current.outcomes[len(current.plan.steps) - 1] for current in planned if current.plan is not None]
    assert result.answer in ("", *(last.text for last in lasts if last.status == "ok"))
    assert bool(result.answer) == any(last.status == "ok" for last in lasts)
    sources = answer_sources(result)
    assert all(outcome.status == "ok" for outcome in sources)
    if result.status == "ok":
        assert result.answer == lasts[-1].text
        steps = planned[-1].plan.steps if planned[-1].plan is not None else ()
        assert all(o.shown is None or len(o.shown) >= steps[o.step].least for o in sources)


def check_shown(stage: Stage, events: list[Event], script: Script) -> None:
    """No text reaches a worker but those of the steps it was to be shown, in any round and nested run.

    Errors, pieces that broke off and, if the conductor says so, the question reach none.
    """
    runs = {event.run_id: event for event in events if isinstance(event, RunStarted)}
    ready = [event for event in events if isinstance(event, PlanReady)]
    steps = {(e.run_id, e.round, index): step for e in ready for index, step in enumerate(e.plan.steps)}
    for request in stage.requests:
        run, number, step = request.caller.run_id, request.caller.round, request.caller.step
        if run not in runs:  # it was stopped as soon as it began, inside of another
            continue
        shown = steps[run, number, step]
        text, given = f"{request.messages} {request.step_input}", str(runs[run].query)
        assert "{{" not in str(request.messages)
        assert "<lost" not in text
        assert script.shows_question or QUESTION not in text
        subtasks = _subtasks(str([steps[run, number, each].subtask for each in (*shown.access, step)]))
        assert shown.previous or _subtasks(text) - _subtasks(given) <= subtasks
        for mark in _marks(text) - _marks(given):
            source = stage.written[mark]
            while source[0] != run:  # the output of a nested run is that of the step it answers for
                source = runs[source[0]].parent[:3]
            # What is taken over from an earlier round stands for the step that repeats it.
            taken_over = script.on_failure == "replan" and source[1] < number
            before = shown.previous and (source[1] == number - 1 or script.on_failure == "replan")
            assert taken_over or before or (source[1] == number and source[2] in shown.access)


def _marks(text: str) -> set[str]:
    return set(re.findall(r"<out\d+>", text))


def _subtasks(text: str) -> set[str]:
    return set(re.findall(r"subtask \d|inner [abc]", text))


def check_ends(events: list[Event], result: Result) -> None:
    """Each step has one outcome, told once, which is the one in the result."""
    told = [e.outcome for e in events if isinstance(e, StepEnded) and e.run_id == result.run_id]
    assert sorted(map(repr, told)) == sorted(map(repr, result.outcomes))
    for current in result.rounds:
        if current.plan is not None:
            steps = [outcome.step for outcome in current.outcomes[: len(current.plan.steps)]]
            assert steps == list(range(len(current.plan.steps)))
            _check_inputs(current)


def _check_inputs(current: Round) -> None:
    """See that a step ran only on what there was, and not on less than it needs unless it was told."""
    for step, outcome in zip(current.plan.steps, current.outcomes, strict=False):
        if outcome.attempts and not outcome.reused:
            shown = step.access if outcome.shown is None else outcome.shown
            assert set(shown) <= set(step.access)
            assert all(current.outcomes[seen].status == "ok" for seen in shown)
            ended = [current.outcomes[seen].ended or 0.0 for seen in shown]
            assert outcome.started >= max(ended, default=0.0) or current.number > 1


def check_calls(stage: Stage, events: list[Event], result: Result) -> None:
    """The ledger's calls are those that workers and planners saw, and the run's own were told of."""
    own = [r for r in stage.requests if r.caller is not None and r.caller.run_id == result.run_id]
    started = [e for e in events if isinstance(e, StepStarted) and e.run_id == result.run_id]
    assert len(own) == sum(1 for event in started if event.worker != "team")
    planned = sum(event.reserved.calls for event in events if isinstance(event, PlannerStarted))
    outer = [ledger for ledger in stage.ledgers if ledger.parent is None]
    assert all(ledger.spent.calls == stage.calls + planned for ledger in outer)
