"""What a plan will cost: forecasts, and what a changed plan keeps of a recorded run.

A forecast simulates runs of the plan (Monte Carlo).

A simulated call has the values of one of the worker's latest calls, or assumed values if few
calls are known. Steps start as in a run: as soon as their inputs exist and a slot is free. The
random seed is fixed. A plan with maps, conditions or blocks is not simulated: see `_Estimate`.
Its likely amounts are those of earlier rounds with the same plan.

Adding up percentiles of single calls would be wrong: for four parallel calls of an unknown model, it
gives 9 s (4 to 28). The simulation gives 22 s (11 to 50), as in reality, because the slowest
call decides. For four calls in sequence, the simple interval is up to 1.6 times too wide.
"""

import json
from asyncio import get_running_loop
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heapreplace
from math import sqrt
from random import Random
from statistics import median
from typing import Any, NamedTuple

from podium.budget.ledger import Ledger
from podium.budget.limits import Spend
from podium.execution.context import ConductorSettings, PreviousRound, RunContext, RunRequest
from podium.execution.scheduler import RoundScheduler
from podium.prompts.prompt import shown_step, step_input, worker_messages
from podium.run_state.actions import ActionLog
from podium.run_state.paid import paid_results_of
from podium.run_state.state import RunState
from podium.secrets import scrub
from podium.types.forecast import HIGH, LOW, Amounts, Forecast, Interval, ItemForecast
from podium.types.messages import Message, estimate_usage
from podium.types.outcome import Round, total_cost
from podium.types.plan import Plan
from podium.types.references import BadValue, Reference, value_at, with_values
from podium.types.result import answer_of, steps_of
from podium.types.steps import AnyStep, Block, Step, calls_in, count_of, depends_on, each_of, inner_of
from podium.usage import Usage
from podium.workers.person import PersonWorker
from podium.workers.pool import CallRecord, Pool
from podium.workers.worker import VisibleStep, Worker

DRAWS = 128
"""Number of simulated runs."""
ENOUGH = 8
"""Number of known calls of a worker that are enough to simulate it without assumptions.

If only `n` calls are known, a simulated call has the values of a known call with probability `n / ENOUGH`,
and otherwise assumed values.
"""
WRITTEN, WRITTEN_SPREAD = 500.0, 0.9
"""Assumed output tokens of a model: the median, and the standard deviation of the logarithm."""
SPEED, SPEED_SPREAD = 60.0, 0.5
"""Assumed output tokens per second: the median, and the standard deviation of the logarithm."""
FIRST_TOKEN = 1.0
"""Assumed seconds until the first token."""
CODE, CODE_SPREAD = 0.1, 1.5
"""Assumed seconds of a call without a model: the median, and the standard deviation of the logarithm."""
FAILING = 0.03
"""Assumed share of calls that fail."""


def forecast_plan(
    settings: ConductorSettings,
    plan: Plan,
    query: tuple[Message, ...],
    texts: Mapping[str, str],
    previous: tuple[VisibleStep, ...] = (),
) -> Forecast:
    """Return the forecast of a plan's steps with a conductor's settings."""
    if plan.is_workflow:
        return _Estimate(settings, plan, query).forecast()
    simulation = _Simulation(settings, plan, query, texts, previous)
    runs = [simulation.play() for _ in range(DRAWS)]
    limits, names, habits = settings.limits, settings.pool.names, simulation.habits
    unknown = any(habit.cost_unknown for habit in habits.values())
    return Forecast(
        calls=_interval([run.calls for run in runs]),
        input_tokens=_interval([run.read for run in runs]),
        output_tokens=_interval([run.written for run in runs]),
        cost=None if unknown else _interval([run.cost or 0.0 for run in runs]),
        seconds=_interval([min(run.seconds, limits.seconds) for run in runs]),
        actions=len(simulation.actions),
        guessed=tuple(names[number] for number, habit in habits.items() if habit.guessed),
    )


def plan_key(plan: Plan, workers: Sequence[str]) -> str:
    """Return the steps of a plan as text, with the names of the workers and without secrets."""
    if plan.is_workflow:
        return scrub(json.dumps(plan.to_json(workers)["steps"]))
    return scrub(json.dumps([(workers[step.worker], step.subtask, step.access_list) for step in plan.calls]))


def remember(pool: Pool, current: Round, workers: Sequence[str]) -> None:
    """Keep what a round with an answer spent, for forecasts of the same plan; `workers` are the plan's."""
    if current.plan is not None and current.plan.is_workflow and answer_of(current) is not None:
        pool.past_rounds.append((plan_key(current.plan, workers), Amounts.of(current.outcomes)))


class _Habit:
    """Draws simulated calls of one worker."""

    def __init__(self, worker: Worker, known: tuple[CallRecord, ...]) -> None:
        self.calls = 0 if isinstance(worker, PersonWorker) else 1
        """The calls that a step needs: the answer of a person is none, and its time is not known."""
        self.guessed = self.calls > 0 and len(known) < ENOUGH
        self._known = known
        self._costs = [took.cost for took in known if took.cost is not None]
        self._price = worker.card.price
        self.cost_unknown = self._price is None and not self._costs
        self._uses_tokens = worker.uses_tokens
        self.reads_prose = worker.reads_prose
        self._most = worker.max_tokens
        self.slots = worker.card.concurrency

    def draw(self, dice: Random, prompt: float) -> CallRecord:
        """Return a simulated call with a prompt of `prompt` tokens."""
        is_known = dice.random() * ENOUGH < len(self._known)
        took = dice.choice(self._known) if is_known else self._guess(dice)
        read = round(prompt) if took.input_tokens else 0
        if self._price is not None:
            cost: float | None = self._price.cost(Usage(read, took.output_tokens))
        else:
            cost = dice.choice(self._costs) if self._costs else None
        return took._replace(input_tokens=read, cost=cost)

    def _guess(self, dice: Random) -> CallRecord:
        ok = dice.random() >= FAILING
        if not self.calls:
            return CallRecord(0.0, True, 0, 0)  # noqa: FBT003 - a field of a tuple
        if not self._uses_tokens:
            return CallRecord(CODE * dice.lognormvariate(0.0, CODE_SPREAD), ok, 0, 0)
        written = round(WRITTEN * dice.lognormvariate(0.0, WRITTEN_SPREAD))
        if self._most is not None:
            written = min(written, self._most)
        seconds = FIRST_TOKEN + written / (SPEED * dice.lognormvariate(0.0, SPEED_SPREAD))
        return CallRecord(seconds, ok, 1, written)


class _Draws:
    """Draws calls of the workers of one plan."""

    def __init__(self, settings: ConductorSettings, plan: Plan) -> None:
        self._plan = plan
        self._limits = settings.limits
        self._retry, self._pool = settings.retry, settings.pool
        self.habits: dict[int, _Habit] = {}
        """Of the workers of the plan, and of those that are asked after an empty answer."""
        self._dice = Random(0)  # noqa: S311 - the same every time
        self.actions = settings.actions_of(plan)

    def _know(self, numbers: set[int]) -> None:
        """Make the habits of workers, and of those that `Retry.next_best` may call after them."""
        pool = self._pool
        if any(pool[number].uses_tokens for number in numbers):
            numbers = numbers.union(pool.names.index(name) for name in self._retry.next_best)
        self.habits = {each: _Habit(pool[each], pool.states[each].history.calls) for each in sorted(numbers)}

    def _try(self, run: Amounts, number: int, prompt: float) -> tuple[float, int | None]:
        """Simulate calls until one succeeds; return their total seconds, and the tokens of the output.

        A failure counts as an empty answer, which `Retry.next_best` follows.
        """
        seconds, called = 0.0, [number]
        while len(called) <= self._retry.attempts:
            habit = self.habits[called[-1]]
            took = habit.draw(self._dice, prompt)
            seconds += min(took.seconds, self._limits.attempt_seconds)
            run.calls += habit.calls
            run.read += took.input_tokens
            run.written += took.output_tokens
            run.cost = (run.cost or 0.0) + (took.cost or 0.0)
            if took.ok:
                return seconds, took.output_tokens
            best = (
                self._retry.next_after(number, called, self._pool) if self._pool[number].uses_tokens else []
            )
            called += [*best, called[-1]][:1]
        return seconds, None


class _Simulation(_Draws):
    """Simulates the runs of one plan without maps, conditions and blocks."""

    def __init__(
        self,
        settings: ConductorSettings,
        plan: Plan,
        query: tuple[Message, ...],
        texts: Mapping[str, str],
        previous: tuple[VisibleStep, ...],
    ) -> None:
        super().__init__(settings, plan)
        needed = plan.reaching(*plan.answers, *self.actions)
        self._order = [index for layer in plan.layers for index in layer if index in needed]
        """The steps that run, ordered by the length of the longest chain of steps before them."""
        pool, asked = settings.pool, query if settings.show_question else ()
        self._know({plan.calls[index].worker for index in self._order})
        self._prompts: dict[int, float] = {}
        """Tokens of each step's prompt, without the outputs of the plan's own steps."""
        for index in self._order:
            step = plan.calls[index]
            visible = tuple(shown_step(plan, seen, "") for seen in step.access)
            visible = previous + visible if step.previous else visible
            worker = pool[step.worker]
            seen = worker.card.remembers(asked)
            messages = worker_messages(step_input(worker, step, visible, seen, texts=texts), worker.card)
            self._prompts[index] = estimate_usage(messages, "").input_tokens

    def play(self) -> Amounts:
        """Simulate one run of the plan."""
        run = Amounts()
        found = {number: habit.slots for number, habit in self.habits.items()}
        slots = {number: [0.0] * most for number, most in found.items() if most is not None}
        room = [0.0] * min(self._limits.concurrency, len(self._order))
        ends: dict[int, float] = {}
        outputs: dict[int, int] = {}
        for index in self._order:
            step = self._plan.calls[index]
            seen = sorted(ends[other] for other in step.access if other in ends)
            if len(seen) < step.least:
                continue  # too many of its inputs failed
            ready = seen[step.least - 1] if seen else 0.0
            read = step.access if self.habits[step.worker].reads_prose else (*step.access, *step.references)
            prompt = self._prompts[index] + sum(outputs.get(other, 0) for other in read)
            seconds, written = self._try(run, step.worker, prompt)
            taken = [room, *filter(None, (slots.get(step.worker),))]
            end = max(ready, *(free[0] for free in taken)) + seconds
            for free in taken:
                heapreplace(free, end)
            run.seconds = max(run.seconds, end)
            if written is not None:
                ends[index], outputs[index] = end, written
        awaited = (*self._plan.answers, *self.actions)
        if self._plan.answers[-1] in ends:  # the other steps are stopped
            run.seconds = max(ends[index] for index in awaited if index in ends)
        return run


class _End(NamedTuple):
    """One end of the range of a plan's amounts."""

    share: float
    """The quantile of the amounts of a call."""
    is_most: bool
    """Whether everything runs, and not as little as possible."""


_FEWEST, _LIKELY, _MOST = _End(LOW, is_most=False), _End(0.5, is_most=True), _End(HIGH, is_most=True)


class _Estimate(_Draws):
    """Adds up the calls of a plan with maps, conditions or blocks, from the fewest to the most.

    It does not simulate runs, because nobody knows how likely each number of items is.
    """

    def __init__(self, settings: ConductorSettings, plan: Plan, query: tuple[Message, ...]) -> None:
        super().__init__(settings, plan)
        needed = plan.reaching(*plan.answers, *self.actions)
        self._needed = [step for index, step in enumerate(plan.steps) if index in needed]
        self._left_out = {index for index in range(len(plan.steps)) if index not in needed}
        pool = settings.pool
        asked = query if settings.show_question else ()
        self._sizes: dict[int, int] = {}
        """The number of items of maps over the values of parameters, by the id of the step."""
        self._holds: dict[int, bool] = {}
        """Whether conditions on the values of parameters hold, by the id of the step."""
        self._take_values(plan.steps, plan.args or {})
        self._samples: dict[tuple[int, str], list[Amounts]] = {}
        """By worker and subtask."""
        called = [*calls_in(self._needed)]
        self._know({call.worker for call in called})
        for call in called:
            number = call.worker
            seen = pool.cards[call.worker].remembers(asked)
            prompt = estimate_usage((*seen, Message("user", call.subtask)), "").input_tokens
            prompt += round(len(call.access) * WRITTEN)
            self._samples[number, call.subtask] = [self._drawn(number, prompt) for _ in range(DRAWS)]

    def _drawn(self, number: int, prompt: float) -> Amounts:
        run = Amounts()
        run.seconds, _ = self._try(run, number, prompt)
        return run

    def forecast(self) -> Forecast:
        """Return the forecast."""
        steps = self._plan.steps
        few, many = self._total(steps, _FEWEST), self._total(steps, _MOST)
        likely: list[Amounts] = [*self._pool.past(plan_key(self._plan, self._pool.names))]
        if not likely and self._is_known:
            likely = [self._total(steps, _LIKELY)]

        def between(name: str) -> Interval:
            found = [getattr(each, name) for each in likely]
            known = None if None in found or not found else median(found)
            low, high = getattr(few, name), getattr(many, name)
            return (
                Interval(low, None, high)
                if known is None
                else Interval(min(low, known), known, max(high, known))
            )

        habits, names = sorted(self.habits.items()), self._pool.names
        guessed = (names[number] for number, habit in habits if habit.guessed)
        return Forecast(
            calls=between("calls"),
            input_tokens=between("read"),
            output_tokens=between("written"),
            cost=None if self._has_unknown_cost(self._needed) else between("cost"),
            seconds=between("seconds"),
            actions=len(self.actions),
            items=tuple(self._per_item()),
            guessed=tuple(guessed),
        )

    def _per_item(self) -> Iterator[ItemForecast]:
        """Yield the forecast of one item of each map over a list that is not known."""
        for place in self._plan.outline:
            if self._size(place.step) is None and place.path[0] not in self._left_out:
                item = inner_of(place.step)
                few, many = self._total([item], _FEWEST), self._total([item], _MOST)
                cost = (
                    None
                    if self._has_unknown_cost([item])
                    else Interval(few.cost or 0.0, None, many.cost or 0.0)
                )
                yield ItemForecast(step=place.name, calls=Interval(few.calls, None, many.calls), cost=cost)

    def _has_unknown_cost(self, steps: Sequence[AnyStep]) -> bool:
        return any(self.habits[call.worker].cost_unknown for call in calls_in(steps))

    def _total(self, steps: Sequence[AnyStep], end: _End) -> Amounts:
        """Return a quantile of the amounts of steps, with the fewest or the most executions."""
        run = Amounts()
        run.seconds = min(self._add(run, steps, 1, 1, end), self._limits.seconds)
        return run

    def _add(self, run: Amounts, steps: Sequence[AnyStep], width: int, times: int, end: _End) -> float:
        """Add the amounts of steps that run `width` times at once, and this `times`; return the seconds."""
        ends: list[float] = []
        for index, step in enumerate(steps):
            count, seconds = width * self._count(step, end), 0.0
            if steps is self._plan.steps and index in self._left_out:
                count = 0
            if isinstance(step, Block):
                turns = (step.most or 1) if end.is_most else 1
                seconds = turns * self._add(run, step.steps, count, times * turns, end)
            elif count:
                seconds = self._add_call(run, step, count, times, end.share)
            before = [ends[each] for each in depends_on(step) if each < len(ends)]
            ends.append(seconds + max(before, default=0.0))
        return max(ends, default=0.0)

    def _add_call(self, run: Amounts, step: Step, width: int, times: int, share: float) -> float:
        """Add the amounts of one call, and return the seconds of `width` calls."""
        samples, number = self._samples[step.worker, step.subtask], width * times

        def amount(name: str, count: int) -> float:
            ranked = sorted(getattr(each, name) for each in samples)
            mean = sum(ranked) / len(ranked)
            own: float = ranked[round(share * (len(ranked) - 1))]
            return float(count * mean + (own - mean) * sqrt(count))

        run.calls += max(number * self.habits[step.worker].calls, round(amount("calls", number)))
        run.read += round(amount("read", number))
        run.written += max(0, round(amount("written", number)))
        run.cost = (run.cost or 0.0) + max(0.0, amount("cost", number))
        slots = self.habits[step.worker].slots or width
        lanes = min(width, slots, self._limits.concurrency)
        return max(amount("seconds", 1), amount("seconds", width) / lanes)

    def _count(self, step: AnyStep, end: _End) -> int:
        """Return how often a step runs in its block."""
        holds = self._holds.get(id(step), end.is_most) if step.when is not None else True
        size = self._size(step)
        most = self._limits.items if end.is_most else 0
        return 0 if not holds else most if size is None else size

    def _size(self, step: AnyStep) -> int | None:
        """Return the number of items of a step, 1 without `each`; `None` if it is not known."""
        if isinstance(step.each, str):
            return self._sizes.get(id(step))
        return 1 if step.each is None else count_of(step.each)

    @property
    def _is_known(self) -> bool:
        """Whether it is known how often each step runs."""
        steps = [place.step for place in self._plan.outline]
        is_open = any(step.when is not None and id(step) not in self._holds for step in steps)
        is_open = is_open or None in map(self._size, steps)
        return not is_open and not any(isinstance(step, Block) and step.until is not None for step in steps)

    def _take_values(self, steps: Sequence[AnyStep], names: Mapping[str, Any]) -> None:
        """Take note of what follows from the values of parameters: numbers of items, and conditions."""

        def value(reference: Reference) -> Any:
            return value_at(names[str(reference.root)], reference.path, reference)

        for step in steps:
            listed = each_of(step)
            with suppress(BadValue, KeyError):  # the step fails, or depends on outputs
                if listed is not None:
                    found = value(listed)
                    self._sizes[id(step)] = found if isinstance(found, int) else len(found)
            with suppress(BadValue, KeyError):
                if step.when is not None:
                    self._holds[id(step)] = step.when.holds(value(step.when.reference))
            if isinstance(step, Block):
                own = {} if step.plan else dict(names)
                for name, given in (step.args or {}).items():
                    with suppress(BadValue, KeyError):
                        own[name] = with_values(given, names, value)
                self._take_values(step.steps, own)


def _interval(amounts: Sequence[float]) -> Interval:
    ranked = sorted(amounts)
    low, likely, high = (ranked[round(share * (len(ranked) - 1))] for share in (LOW, 0.5, HIGH))
    return Interval(low, likely, high)


class Preview(NamedTuple):
    """What a run with a changed plan keeps, and what it pays for again."""

    kept: int
    """The number of recorded results that are kept."""
    kept_cost: float | None
    """What they cost, in USD; `None` when unknown."""
    expected: Spend
    """What the calls of the other steps are expected to need. A list that is not known yet counts with one
    item, a loop with one turn, and a condition as met."""
    items: int = 0
    """How many of the kept results are of items, turns and steps of blocks."""
    unlisted: tuple[str, ...] = ()
    """The maps whose items are known only when they run. Further results may then be kept."""

    def __str__(self) -> str:
        parts = [f"{self.items} inside of maps and blocks"] if self.items else []
        parts += [] if self.kept_cost is None else [f"${self.kept_cost:.4f}"]
        kept = f" ({', '.join(parts)})" if parts else ""
        cost = "cost unknown" if self.expected.cost is None else f"about ${self.expected.cost:.4f}"
        calls = self.expected.calls
        told = (
            f"at least {calls} call{' is' if calls == 1 else 's are'} expected, {cost}"
            if calls
            else "nothing is called"
        )
        kept = f"{self.kept} recorded result{' is' if self.kept == 1 else 's are'} kept{kept}"
        if not self.unlisted:
            return f"{kept}; {told}"
        maps = f"step{'' if len(self.unlisted) == 1 else 's'} {', '.join(self.unlisted)}"
        return f"at least {kept}; {told}: the items of {maps} are known only when they run"


async def preview(settings: ConductorSettings, request: RunRequest, state: RunState, plan: Plan) -> Preview:
    """Return what a recorded run keeps if `plan` replaces the plan of its last round; nothing is called."""
    clock = get_running_loop().time
    paid = paid_results_of(state, settings.pool.names)
    number = max(state.rounds, default=1)
    context = RunContext(
        settings=settings,
        request=request,
        ledger=Ledger(settings.limits, clock() + settings.limits.seconds),
        policy=settings.policy,
        labels=request.labels,
        previous=_previous(state, number, request),
        paid_results=paid,
        actions=ActionLog(state.run_id, settings.pool.workers, recorded=paid.actions),
        recorded=_nothing,
        clock=clock,
        began=clock(),
    )
    kept, expected, unlisted = RoundScheduler(context, number, last=True).preview(plan)
    inside = sum(bool(each.path) for each in kept)
    return Preview(len(kept), total_cost(each.cost for each in kept), expected, inside, unlisted)


async def _nothing() -> None:
    """Record nothing."""


def _previous(state: RunState, number: int, request: RunRequest) -> PreviousRound:
    """Return what steps with "previous" on their access list see."""
    rounds = [each for each in state.rounds_so_far() if each.number < number]
    if not rounds or (plan := rounds[-1].plan) is None:
        return PreviousRound()
    good = [each for each in steps_of(rounds[-1]) if each.status == "ok"]
    names = request.context
    return PreviousRound(
        tuple(shown_step(plan, each.step, each.text, previous=True, names=names) for each in good)
    )
