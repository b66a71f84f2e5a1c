"""The reward of a conductor's text, and the service that rewards the texts of a training.

As in the RL Conductor (arXiv 2512.04388), the reward is 0 without a valid plan, 0.5 for a wrong, and 1 for a
right answer.

Cost is a tie-break among right answers of one group. A cost term for all texts teaches a conductor to write
cheap plans that fail. So only texts with a right answer are compared by cost, with a weight that grows during
training, and a right answer never falls to the reward of a wrong one.

A group may have texts of two rounds. A text of the first round gets `(1 - discount) * own + discount *
following`, where `own` is its own reward, and `following` is the mean reward of the texts that continue it. A
text of the second round gets its own reward.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from statistics import fmean
from typing import Literal

import anyio
from pydantic import TypeAdapter

from podium.errors import ConfigError, PlanError, PlanInvalid
from podium.plan_text import parse_plan
from podium.types import Plan
from podium.types.steps import Block, is_unconditional
from podium_train.environments import EarlierRound, Environment, Episode, PlanOutcome
from podium_train.prompts import MAX_STEPS
from podium_train.store import RewardStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The reward of one text, and why."""

    value: float | None
    """0 for a text without a valid plan, 0.5 for a valid plan with a wrong answer, 1 for a right answer, and
    between 0.5 and 1 for a graded one. `None` if the outcome cannot be known; do not train on such a text."""
    plan: Plan | None = None
    """The plan; `None` if the text has no valid plan."""
    outcome: PlanOutcome | None = None
    """The outcome of the plan; `None` without a plan or if it cannot be known."""
    problem: str = ""
    """The code of the error in the text; empty for a valid plan."""


async def reward_of(
    text: str,
    episode: Episode,
    environment: Environment,
    *,
    max_steps: int = MAX_STEPS,
) -> Reward:
    """Return the reward of a conductor's text of the first round.

    Args:
        text: what the conductor wrote.
        episode: the question and the pool that the conductor was shown.
        environment: carries out the plan.
        max_steps: maximum number of steps of a valid plan.
    """
    try:
        plan = read_plan(text, episode, max_steps=max_steps)
    except PlanError as error:
        return Reward(value=0.0, problem=error.code)
    outcome = await environment.carry_out(episode, plan)
    if outcome is None:
        return Reward(value=None, plan=plan)
    return Reward(value=graded(outcome), plan=plan, outcome=outcome)


def read_plan(text: str, episode: Episode, *, max_steps: int, previous: bool = False) -> Plan:
    """Return the plan of a conductor's text."""
    plan = parse_plan(text, workers=len(episode.cards), max_steps=max_steps, previous=previous)
    plan.check_types([card.form for card in episode.cards])
    for index, step in enumerate(plan.steps):
        if isinstance(step, Block) or not is_unconditional(step):
            told = f"step {index} has each, when or steps, and environments have outcomes of plain steps"
            raise PlanInvalid("bad_shape", f"{told}: write steps with worker, subtask and access", step=index)
    if not plan.calls and not previous:
        raise PlanInvalid("nothing_to_keep", "the plan has no steps, and there is no answer to keep")
    return plan


def keeps(plan: Plan, earlier: Plan) -> bool:
    """Return whether a plan of the second round keeps the answer of the first, as in a run.

    It has no steps, or it repeats the first plan and its steps do not see the first round.
    """
    return not plan.calls or (plan == earlier and not any(step.previous for step in plan.calls))


def graded(outcome: PlanOutcome) -> float:
    """Return the reward of a valid plan with this outcome."""
    return 0.5 + 0.5 * outcome.score


WhyUnknown = Literal["", "outcome", "budget"]
"""Why a text has no reward: the environment does not know the outcome, or the money limit does not allow the
plan; empty for a text with a reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """A conductor's text, to be rewarded."""

    episode: Episode
    """The question and the pool that the conductor was shown."""
    text: str
    """What the conductor wrote."""
    earlier: str | None = None
    """The text of the first round, if `text` is of the second. The conductor was shown its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The reward of one text, with the facts that logs and guards need."""

    value: float | None
    """The reward, as in `podium_train.Reward`. Do not train on a text whose reward is `None`."""
    why_unknown: WhyUnknown = ""
    """Why there is no reward."""
    problem: str = ""
    """The code of the error in the text; empty for a valid plan."""
    answer: str = ""
    """The answer of the plan; empty if there is none or it is unknown. Only with an answer is there a second
    round."""
    second_round: bool = False
    """Whether the text is of a second round."""
    before: float | None = None
    """The reward of the first round, for a text of a second round; `None` if unknown."""
    kept: bool = False
    """Whether a text of a second round keeps the answer of the first."""
    workers: tuple[int, ...] = ()
    """The number of the worker of each step; empty without a plan."""
    cost: float | None = 0.0
    """What the calls of the plan cost, whether now or when its outcome was cached; `None` if unknown."""
    calls: int = 0
    """Number of worker calls."""
    tokens: int = 0
    """Tokens that the workers read and wrote; 0 if unknown."""
    cached: bool = False
    """Whether nothing was executed for this text, because the outcome of its plan was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardLimits:
    """How many plans a reward service executes at once, and how much it spends.

    Raises:
        ConfigError: a limit is not above 0, or there is a budget without `plan_cost`.
    """

    concurrency: int = 256
    """Maximum number of plans in execution."""
    budget: float | None = None
    """Maximum spending, in the environment's unit, of all runs with the same database; `None` for no
    limit."""
    plan_cost: float | None = None
    """The most that one plan can cost. This much is reserved before a plan starts, so that the budget holds
    although plans run concurrently. Needed with `budget`."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "budget", "plan_cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value!r}: it must be above 0")
        if self.budget is not None and self.plan_cost is None:
            raise ConfigError("budget needs plan_cost, the most that one plan can cost: add it")

    def shared_by(self, processes: int) -> "RewardLimits":
        """Return the limits of each of some processes; the budget is in the database that they share."""
        return replace(self, concurrency=max(1, self.concurrency // processes))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostWeight:
    """The weight of the cost at each step of training.

    Raises:
        ConfigError: the weight is not from 0 to below 0.5, or the steps are not in order.
    """

    weight: float = 0.0
    """The reward that the most expensive right plan of a group loses at the end, from 0 to below 0.5."""
    start: int = 0
    """The step up to which the weight is 0."""
    end: int = 0
    """The step from which the weight is `weight`; between, it grows evenly."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight < 0.5:
            raise ConfigError(f"the weight of the cost is {self.weight!r}: it must be from 0 to below 0.5")
        if not 0 <= self.start <= self.end:
            told = "the first must be 0 or more, and not above the second"
            raise ConfigError(f"the cost counts from step {self.start} to step {self.end}: {told}")

    def at(self, step: int) -> float:
        """Return the weight at a step."""
        if step >= self.end:
            return self.weight
        return self.weight * max(step - self.start, 0) / (self.end - self.start)


def with_costs(group: Sequence[Score], weight: float) -> list[float | None]:
    """Return the rewards of one group, less the weighted cost of each right plan."""
    costs = [score.cost for score in group if score.value == 1.0 and score.cost is not None]
    least, spread = min(costs, default=0.0), max(costs, default=0.0) - min(costs, default=0.0)
    return [
        score.value - weight * (score.cost - least) / spread
        if spread > 0 and score.value == 1.0 and score.cost is not None
        else score.value
        for score in group
    ]


DISCOUNT = 0.25
"""The discount of the paper."""


def with_second_rounds(
    texts: Sequence[str],
    earlier: Sequence[str | None],
    rewards: Sequence[float | None],
    *,
    discount: float = DISCOUNT,
) -> list[float | None]:
    """Return the rewards of one group."""
    following: dict[str, list[float]] = defaultdict(list)
    for before, reward in zip(earlier, rewards, strict=True):
        if before is not None and reward is not None:
            following[before].append(reward)
    return [
        (1 - discount) * reward + discount * fmean(following[text])
        if before is None and reward is not None and following[text]
        else reward
        for text, before, reward in zip(texts, earlier, rewards, strict=True)
    ]


_EPISODE = TypeAdapter(Episode)


def episode_json(episode: Episode) -> str:
    """Return an episode as JSON, for a column of a dataset."""
    return _EPISODE.dump_json(episode).decode()


def read_episode(text: str) -> Episode:
    """Read an episode from `episode_json`."""
    return _EPISODE.validate_json(text)


_VERSION = 3
"""Increased when stored outcomes have less than `PlanOutcome` needs; older outcomes are then not found."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A plan to execute."""

    episode: Episode
    plan: Plan
    earlier: EarlierRound | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What became of a plan."""

    outcome: PlanOutcome | None
    why_unknown: WhyUnknown = ""
    cached: bool = False


@dataclass(slots=True)
class _Execution:
    """A plan in execution, for which other requests with the same key wait."""

    ended: anyio.Event = field(default_factory=anyio.Event)
    found: _Found | None = None
    """`None` while it runs, and if it was cancelled."""


class RewardService:
    """Rewards texts: each plan is executed once, within the limits, and its outcome is stored.

    An unknown outcome is not stored, so a later request for the same plan tries again. Use a service in one
    event loop. Several processes share one database, and so the outcomes and the budget; equal plans that
    they execute at the same moment are executed by each.
    """

    def __init__(
        self,
        environment: Environment,
        store: RewardStore,
        *,
        limits: RewardLimits | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        self.environment = environment
        self.store = store
        self.limits = limits or RewardLimits()
        self._max_steps = max_steps
        self._executions: dict[str, _Execution] = {}
        self._places = anyio.Semaphore(self.limits.concurrency)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[Score]:
        """Return the reward of each text, in the same order. The plans are executed concurrently."""
        scores: list[Score | None] = [None] * len(requests)

        async def put(index: int, request: ScoreRequest) -> None:
            scores[index] = await self._score(request)

        async with anyio.create_task_group() as group:
            for index, request in enumerate(requests):
                group.start_soon(put, index, request)
        return [score for score in scores if score is not None]

    async def _score(self, request: ScoreRequest) -> Score:
        if request.earlier is None:
            return await self._first(request)
        earlier = await self._first(replace(request, text=request.earlier, earlier=None))
        return replace(await self._second(request, earlier), second_round=True, before=earlier.value)

    async def _first(self, request: ScoreRequest) -> Score:
        try:
            plan = self._read(request.text, request.episode)
        except PlanError as error:
            return Score(value=0.0, problem=error.code)
        return _scored(plan, await self._outcome(_Work(request.episode, plan)))

    async def _second(self, request: ScoreRequest, earlier: Score) -> Score:
        """Return the score of a text of the second round."""
        episode = request.episode
        if not earlier.answer or request.earlier is None:
            return Score(value=None, why_unknown=earlier.why_unknown or "outcome", cost=None)
        first = self._read(request.earlier, episode)
        try:
            plan = self._read(request.text, episode, previous=True)
        except PlanError as error:
            return Score(value=0.0, problem=error.code)
        if keeps(plan, first):
            return Score(value=earlier.value, answer=earlier.answer, kept=True, cached=True)
        work = _Work(episode, first)
        found = await self._outcome(work)
        if found.outcome is None:
            return Score(value=None, why_unknown=found.why_unknown, cost=None)
        before = EarlierRound(plan=first, outputs=found.outcome.outputs)
        return _scored(plan, await self._outcome(replace(work, plan=plan, earlier=before)))

    def _read(self, text: str, episode: Episode, *, previous: bool = False) -> Plan:
        return read_plan(text, episode, max_steps=self._max_steps, previous=previous)

    def key(self, episode: Episode, plan: Plan, earlier: EarlierRound | None = None) -> str:
        """Return the key of an execution: equal executions have equal keys in all processes."""
        content = [self.environment.name, self.environment.version, episode.key, _steps(plan)]
        before = [] if earlier is None else [_steps(earlier.plan), earlier.outputs]
        return sha256(json.dumps([_VERSION, *content, before], ensure_ascii=False).encode()).hexdigest()

    async def _outcome(self, work: _Work) -> _Found:
        """Return a stored outcome, the outcome of an equal execution in progress, or of a new one."""
        key = self.key(work.episode, work.plan, work.earlier)
        while True:
            stored = self.store.outcome(key)
            if stored is not None:
                return _Found(stored, cached=True)
            running = self._executions.get(key)
            if running is None:
                return await self._run(work, key)
            await running.ended.wait()
            if running.found is not None:
                return _Found(running.found.outcome, running.found.why_unknown, cached=True)

    async def _run(self, work: _Work, key: str) -> _Found:
        execution = self._executions[key] = _Execution()
        try:
            execution.found = await self._execute(work, key)
        finally:
            del self._executions[key]
            execution.ended.set()
        return execution.found

    async def _execute(self, work: _Work, key: str) -> _Found:
        async with self._places:
            reserved, budget = self.limits.plan_cost or 0.0, self.limits.budget
            if budget is None:
                reserved = 0.0
            elif not self.store.reserve(reserved, budget=budget):
                return _Found(None, "budget")
            outcome = await self.environment.carry_out(work.episode, work.plan, work.earlier)
            self.store.settle(key, outcome, reserved=reserved)
            return _Found(None, "outcome") if outcome is None else _Found(outcome)


def _scored(plan: Plan, found: _Found) -> Score:
    """Return the score of a plan."""
    workers = tuple(step.worker for step in plan.calls)
    if found.outcome is None:
        return Score(value=None, why_unknown=found.why_unknown, workers=workers, cost=None)
    return Score(
        value=graded(found.outcome),
        answer=found.outcome.answer,
        workers=workers,
        cost=found.outcome.cost,
        calls=found.outcome.calls,
        tokens=found.outcome.tokens,
        cached=found.cached,
    )


def _steps(plan: Plan) -> list[list[object]]:
    return [
        [step.worker, step.subtask, step.access, step.enough, step.previous, plan.labels[index]]
        for index, step in enumerate(plan.calls)
    ]
