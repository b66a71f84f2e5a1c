"""The reward service in process."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import anyio

from podium.errors import PlanError
from podium.plan_text import parse_plan
from podium.types import Plan
from podium_train.environments import Environment, Episode, PlanOutcome
from podium_train.prompts import MAX_STEPS
from podium_train.reward import graded
from podium_train.rewards.limits import Meter, RewardLimits
from podium_train.rewards.scorer import Score, Scorer, ScoreRequest, WhyUnknown
from podium_train.rewards.store import RewardStore


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


class RewardService(Scorer):
    """Rewards texts: each plan is executed once, within the limits, and its outcome is stored.

    An unknown outcome is not stored, so a later request for the same plan tries again. Use a service in one
    event loop; several processes share one service over HTTP (`reward_app`).

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
        episode = request.episode
        try:
            plan = parse_plan(
                request.text, workers=len(episode.cards), max_steps=self._max_steps, previous=False
            )
        except PlanError as error:
            return Score(value=0.0, problem=error.code)
        found = await self._outcome(episode, plan, self.key(episode, plan, request.sample))
        workers = tuple(step.worker for step in plan.steps)
        if found.outcome is None:
            return Score(value=None, why_unknown=found.why_unknown, workers=workers, cost=None)
        return Score(
            value=graded(found.outcome),
            workers=workers,
            cost=found.outcome.cost,
            calls=found.outcome.calls,
            tokens=found.outcome.tokens,
            cached=found.cached,
        )

    def key(self, episode: Episode, plan: Plan, sample: int) -> str:
        """Return the key of an execution: equal executions have equal keys in all processes."""
        steps = [
            [step.worker, step.subtask, step.access, step.enough, plan.labels[index]]
            for index, step in enumerate(plan.steps)
        ]
        content = [self.environment.name, self.environment.version, episode.key, steps, sample]
        return sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()

    async def _outcome(self, episode: Episode, plan: Plan, key: str) -> _Found:
        """Return a stored outcome, the outcome of an equal execution in progress, or of a new one."""
        while True:
            stored = self.store.outcome(key)
            if stored is not None:
                return _Found(stored, cached=True)
            running = self._executions.get(key)
            if running is None:
                return await self._run(episode, plan, key)
            await running.ended.wait()
            if running.found is not None:
                return _Found(running.found.outcome, running.found.why_unknown, cached=True)

    async def _run(self, episode: Episode, plan: Plan, key: str) -> _Found:
        execution = self._executions[key] = _Execution()
        try:
            execution.found = await self._execute(episode, plan, key)
        finally:
            del self._executions[key]
            execution.ended.set()
        return execution.found

    async def _execute(self, episode: Episode, plan: Plan, key: str) -> _Found:
        calls = len(plan.needed)
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
            outcome = await self.environment.carry_out(episode, plan)
            self.store.settle(key, outcome, reserved=reserved)
            if outcome is None:
                return _Found(None, "outcome")
            self._executed, self._tokens_used = self._executed + 1, self._tokens_used + outcome.tokens
            self._calls.correct(max(outcome.calls - calls, 0))
            self._tokens.correct(outcome.tokens - tokens)
            return _Found(outcome)
