"""The reward service in process."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import anyio

from podium.errors import PlanError
from podium.types import Plan
from podium_train.environments import EarlierRound, Environment, Episode, PlanOutcome
from podium_train.prompts import MAX_STEPS
from podium_train.reward import graded, keeps, read_plan
from podium_train.rewards.limits import Meter, RewardLimits
from podium_train.rewards.scorer import Score, ScoreRequest, WhyUnknown
from podium_train.rewards.store import RewardStore

_VERSION = 2
"""Increased when stored outcomes have less than `PlanOutcome` needs; older outcomes are then not found."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A plan to execute."""

    episode: Episode
    plan: Plan
    sample: int
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

    Args:
        environment: executes the plans.
        store: keeps the outcomes and the ledger.
        limits: the limits.
        max_steps: maximum number of steps of a valid plan.
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
        self._calls = Meter(self.limits.requests_per_minute)
        self._tokens = Meter(self.limits.tokens_per_minute)
        self._executed, self._tokens_used = 0, 0

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
        return _scored(plan, await self._outcome(_Work(request.episode, plan, request.sample)))

    async def _second(self, request: ScoreRequest, earlier: Score) -> Score:
        """Return the score of a text of the second round.

        Args:
            request: the text, with the text of the first round.
            earlier: the score of the first round.
        """
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
        work = _Work(episode, first, request.sample)
        found = await self._outcome(work)
        if found.outcome is None:
            return Score(value=None, why_unknown=found.why_unknown, cost=None)
        before = EarlierRound(plan=first, outputs=found.outcome.outputs)
        return _scored(plan, await self._outcome(replace(work, plan=plan, earlier=before)))

    def _read(self, text: str, episode: Episode, *, previous: bool = False) -> Plan:
        return read_plan(text, episode, max_steps=self._max_steps, previous=previous)

    def key(self, episode: Episode, plan: Plan, sample: int, earlier: EarlierRound | None = None) -> str:
        """Return the key of an execution: equal executions have equal keys in all processes."""
        content = [self.environment.name, self.environment.version, episode.key, _steps(plan), sample]
        before = [] if earlier is None else [_steps(earlier.plan), earlier.outputs]
        return sha256(json.dumps([_VERSION, *content, before], ensure_ascii=False).encode()).hexdigest()

    async def _outcome(self, work: _Work) -> _Found:
        """Return a stored outcome, the outcome of an equal execution in progress, or of a new one."""
        key = self.key(work.episode, work.plan, work.sample, work.earlier)
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
        calls = len(work.plan.needed)
        async with self._places:
            reserved, budget = self.limits.plan_cost or 0.0, self.limits.budget
            if budget is None:
                reserved = 0.0
            elif not self.store.reserve(reserved, budget=budget):
                return _Found(None, "budget")
            tokens = self._tokens_used / max(self._executed, 1)
            try:
                await self._calls.admit(calls)
                await self._tokens.admit(tokens)
            except BaseException:  # cancelled before the plan started
                self.store.release(reserved)
                raise
            outcome = await self.environment.carry_out(work.episode, work.plan, work.earlier)
            self.store.settle(key, outcome, reserved=reserved)
            if outcome is None:
                return _Found(None, "outcome")
            self._executed, self._tokens_used = self._executed + 1, self._tokens_used + outcome.tokens
            self._calls.correct(max(outcome.calls - calls, 0))
            self._tokens.correct(outcome.tokens - tokens)
            return _Found(outcome)


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
