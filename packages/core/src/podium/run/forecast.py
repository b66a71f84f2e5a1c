"""Forecasts the cost and duration of a plan by simulating its runs (Monte Carlo).

A simulated call has the values of one of the worker's latest calls, or assumed values if few
calls are known. Steps start as in a run: as soon as their inputs exist and a slot is free. The
random seed is fixed.

Adding up percentiles of single calls would be wrong: for four parallel calls of an unknown model, it
gives 9 s (4 to 28). The simulation gives 22 s (11 to 50), as in reality, because the slowest
call decides. For four calls in sequence, the simple interval is up to 1.6 times too wide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from random import Random

from podium.execution.context import ConductorSettings
from podium.prompts.prompt import shown_step, step_input, worker_messages
from podium.types.messages import Message, estimate_usage
from podium.types.plan import Plan
from podium.types.result import HIGH, LOW, Forecast, Interval
from podium.usage import Usage
from podium.workers.pool import CallRecord
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
    simulation = _Simulation(settings, plan, query, texts, previous)
    runs = [simulation.play() for _ in range(DRAWS)]
    limits, names, habits = settings.limits, settings.pool.names, simulation.habits
    unknown = any(habit.cost_unknown for habit in habits.values())
    return Forecast(
        calls=_interval([run.calls for run in runs]),
        input_tokens=_interval([run.read for run in runs]),
        output_tokens=_interval([run.written for run in runs]),
        cost=None if unknown else _interval([run.cost for run in runs]),
        seconds=_interval([min(run.seconds, limits.seconds) for run in runs]),
        actions=len(simulation.actions),
        guessed=tuple(names[number] for number, habit in habits.items() if habit.guessed),
    )


class _Habit:
    """Draws simulated calls of one worker."""

    def __init__(self, worker: Worker, known: tuple[CallRecord, ...]) -> None:
        self.guessed = len(known) < ENOUGH
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
        if not self._uses_tokens:
            return CallRecord(CODE * dice.lognormvariate(0.0, CODE_SPREAD), ok, 0, 0)
        written = round(WRITTEN * dice.lognormvariate(0.0, WRITTEN_SPREAD))
        if self._most is not None:
            written = min(written, self._most)
        seconds = FIRST_TOKEN + written / (SPEED * dice.lognormvariate(0.0, SPEED_SPREAD))
        return CallRecord(seconds, ok, 1, written)


@dataclass(slots=True)
class _Run:
    """One simulated run, with its amounts."""

    calls: int = 0
    read: int = 0
    written: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class _Simulation:
    """Simulates the runs of one plan."""

    def __init__(
        self,
        settings: ConductorSettings,
        plan: Plan,
        query: tuple[Message, ...],
        texts: Mapping[str, str],
        previous: tuple[VisibleStep, ...],
    ) -> None:
        self._plan = plan
        self._limits = settings.limits
        self._attempts = settings.retry.attempts
        self._dice = Random(0)  # noqa: S311 - the same every time
        self.actions = settings.actions_of(plan)
        needed = plan.reaching(len(plan.steps) - 1, *self.actions)
        self._order = [index for layer in plan.layers for index in layer if index in needed]
        """The steps that run, ordered by the length of the longest chain of steps before them."""
        pool, asked = settings.pool, query if settings.show_question else ()
        numbers = sorted({plan.calls[index].worker for index in self._order})
        self.habits = {number: _Habit(pool[number], pool.states[number].history.calls) for number in numbers}
        self._prompts: dict[int, float] = {}
        """Tokens of each step's prompt, without the outputs of the plan's own steps."""
        for index in self._order:
            step = plan.calls[index]
            visible = tuple(shown_step(plan, seen, "") for seen in step.access)
            visible = previous + visible if step.previous else visible
            worker = pool[step.worker]
            messages = worker_messages(step_input(worker, step, visible, asked, texts=texts), worker.card)
            self._prompts[index] = estimate_usage(messages, "").input_tokens

    def play(self) -> _Run:
        """Simulate one run of the plan."""
        run = _Run()
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
            seconds, written = self._try(run, self.habits[step.worker], prompt)
            taken = [room, *filter(None, (slots.get(step.worker),))]
            end = max(ready, *(free[0] for free in taken)) + seconds
            for free in taken:
                heapreplace(free, end)
            run.seconds = max(run.seconds, end)
            if written is not None:
                ends[index], outputs[index] = end, written
        awaited = (len(self._plan.steps) - 1, *self.actions)
        if awaited[0] in ends:  # the other steps are stopped
            run.seconds = max(ends[index] for index in awaited if index in ends)
        return run

    def _try(self, run: _Run, habit: _Habit, prompt: float) -> tuple[float, int | None]:
        """Simulate calls until one succeeds; return their total seconds, and the tokens of the output."""
        seconds = 0.0
        for _ in range(self._attempts):
            took = habit.draw(self._dice, prompt)
            seconds += min(took.seconds, self._limits.attempt_seconds)
            run.calls += 1
            run.read += took.input_tokens
            run.written += took.output_tokens
            run.cost += took.cost or 0.0
            if took.ok:
                return seconds, took.output_tokens
        return seconds, None


def _interval(amounts: Sequence[float]) -> Interval:
    ranked = sorted(amounts)
    low, likely, high = (ranked[round(share * (len(ranked) - 1))] for share in (LOW, 0.5, HIGH))
    return Interval(low, likely, high)
