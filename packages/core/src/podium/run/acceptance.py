"""Judges the answer of a round: with a function, or with a worker."""

import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from inspect import isawaitable

import anyio

from podium.aio.calls import foreign_batches
from podium.errors import PodiumError, WorkerFailed
from podium.execution.context import Accept, RunContext
from podium.execution.fit import Fit
from podium.execution.node import STOPPED, StepNode
from podium.execution.step import StepRunner
from podium.prompts.prompt import judge_prompt
from podium.run_state.paid import step_key
from podium.secrets import BUGS, Boundary, add_place
from podium.types.messages import storable
from podium.types.outcome import Outcome, Problem
from podium.types.references import literal
from podium.types.steps import Step
from podium.workers.pool import Pool
from podium.workers.worker import StepInput, Worker

NOT_ACCEPTED = "the answer was not accepted"
_VERDICT = re.compile(r"[\s*_#>\"'`]*(yes|no)\b[\s*_#>\"'`.,:;!–—-]*", re.IGNORECASE)
"""The beginning of a judge's reply."""
_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.IGNORECASE | re.DOTALL)


@dataclass(slots=True)
class AcceptanceCheck:
    """The check of one round's answer; its results can be read at any time."""

    context: RunContext
    """The context of the run, with the labels of the answer."""
    round: int
    index: int
    """The index of the judge's call, which counts as a step after the plan's last step."""
    check: Outcome | None = field(default=None, init=False)
    """The outcome of a worker as the judge; `None` if no worker was called."""
    problem: Problem | None = field(default=None, init=False)
    """Why the answer was not judged; the run then returns the answer with this problem."""

    async def verdict(self, accept: Accept, answer: str) -> str:
        """Return why the answer is rejected; empty if it is accepted."""
        try:
            verdict = await (
                self._ask(accept, answer) if isinstance(accept, Worker) else self._call(accept, answer)
            )
        except PodiumError as error:
            self.problem = Problem("not_judged", f"the answer could not be judged: {error}")
            return ""
        return verdict if isinstance(verdict, str) else "" if verdict else NOT_ACCEPTED

    async def _call(self, accept: Callable[[str, str], object], answer: str) -> bool | str:
        """Judge with a function. If the next round is already recorded, use its recorded reason instead."""
        context = self.context
        known = context.paid_results.round(self.round + 1).reason
        if known is not None:
            return known
        question = context.request.query[-1].text if context.request.query else ""
        try:
            with Boundary("accept", WorkerFailed):
                returned = accept(question, answer)
                verdict = await _awaited(returned) if isawaitable(returned) else returned
        except BUGS as bug:
            add_place(bug, context.request.run_id, f"`accept` in round {self.round}")
            raise
        return storable(verdict) if isinstance(verdict, str) else bool(verdict)

    async def _ask(self, judge: Worker, answer: str) -> bool | str:
        """Judge with a worker."""
        check = self.check = await self._checked(judge, judge_prompt(self.context.request.query, answer))
        if check.problem is not None:
            raise WorkerFailed(check.problem.message)
        reply = _THOUGHT.sub("", check.text)
        verdict = _VERDICT.match(reply)
        if verdict is None:
            told = f"the reply of {check.worker} must begin with YES or NO"
            raise WorkerFailed(f"{told}, not {reply.strip()[:80]!r}")
        return verdict[1].lower() == "yes" or reply[verdict.end() :].strip() or False

    async def _checked(self, judge: Worker, asked: str) -> Outcome:
        """Return the judge's outcome, recorded or new. A judge that is in the pool needs one of its slots."""
        ours, paid_results, place = self.context, self.context.paid_results, (self.round, self.index)
        key = step_key(judge.card.name, StepInput(asked))
        known = paid_results.take(key, *place)
        if known is not None:
            ours.tell_step_ended(known, key)
            return known
        pool = Pool([judge], shares=ours.settings.pool)
        retry = replace(ours.settings.retry, fallbacks={}, fallback_labels=frozenset())
        settings = replace(ours.settings, pool=pool, retry=retry, show_question=False)
        request = replace(ours.request, stream=False)
        context = replace(ours, settings=settings, request=request, policy=ours.policy.everywhere)
        before = tuple(paid_results.lost.pop(place, ()))
        state = StepNode(self.index, Step(0, literal(asked)), 1 + len(before), labels=ours.labels)
        runner = StepRunner(context, Fit(context), self.round, state, lambda *_: None, before=before)
        deadline = min(ours.ledger.deadline, ours.clock() + ours.settings.limits.step_seconds)
        check = None
        try:
            with anyio.CancelScope(deadline=deadline):
                check = await runner.run(deadline)
        finally:
            if check is None:
                late = ours.clock() >= deadline
                check = runner.timed_out() if late else runner.ended("cancelled", STOPPED)
            self.check = check
            ours.tell_step_ended(check, key)
        if runner.bug is not None:
            raise runner.bug
        return check


async def _awaited(verdict: Awaitable[object]) -> object:
    """Await the verdict of a function, which is left if it ignores its cancellation."""

    async def call(emit: Callable[[tuple[object]], Awaitable[None]]) -> None:
        await emit((await verdict,))

    async with aclosing(foreign_batches(call, "accept")) as batches:
        return (await anext(batches))[0][0]
