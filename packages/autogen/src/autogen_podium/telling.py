"""Tells a run as AutoGen's messages: what its workers say inside, what its steps came to, its answer.

What models used stands on the messages they wrote, and all else on the answer, so that the
messages of a run add up to what it used. It knows no agent and no team.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import fields, replace

from autogen_agentchat.base import Response
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage, ThoughtEvent

from autogen_podium.messages import read_usage, write_usage
from autogen_podium.terms import answered, facts_of, plan_text
from autogen_podium.workers.agent import AgentWorker, Inner
from autogen_podium.workers.nested import NestedWorker
from podium.conductor import Conductor
from podium.types import Completion, Event, PlanReady, Result, StepDelta, StepEnded, StepStarted
from podium.usage import Usage
from podium.workers import Caller, Request, Worker

_COUNTS = [each.name for each in fields(Usage) if each.name != "estimated"]


class Telling:
    """One run, told while it goes on.

    Args:
        name: whose answer it is.
        conductor: whose run it is.
        emit: takes each message, and at last the response.
        plans: whether plans, and steps that failed, are told as thoughts.
        chunks: whether what models write is told piece by piece.
    """

    def __init__(
        self,
        name: str,
        conductor: Conductor,
        emit: Callable[[Inner | Response], None],
        *,
        plans: bool,
        chunks: bool,
    ) -> None:
        self._inner: list[Inner] = []
        self._name = name
        self._emit = emit
        self._plans = plans
        self._chunks = chunks
        self._pool = conductor.pool
        self._conductors = {
            worker.card.name for worker in self._pool if isinstance(worker, Conductor | NestedWorker)
        }
        self._run_id = ""
        self._seen: dict[str, Usage] = {}
        """What each message told of says a model used, by the message's id."""
        self._workers: dict[tuple[int, int], str] = {}
        """Who was called for a round's step."""
        self._spoken: set[tuple[int, int]] = set()
        """The steps whose agent tells of itself."""

    async def middleware(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker; what an agent says inside is told."""
        caller = request.caller
        if caller is not None and not self._chunks:
            request = replace(request, stream=False)
        if isinstance(worker, AgentWorker) and caller is not None:
            if caller.run_id == self._run_id:
                self._spoken.add((caller.round, caller.step))
            place = _place(caller)
            call = worker.told(request, lambda inner: self._tell(inner, place))
        else:
            call = worker.call(request)
        async with aclosing(call) as pieces:
            async for piece in pieces:
                yield piece

    def hear(self, event: Event) -> None:
        """Take an event of the run; those of runs nested in it are told by their agents alone."""
        self._run_id = self._run_id or event.run_id  # the first event is the run's own
        if event.run_id != self._run_id:
            return
        match event:
            case PlanReady(plan=plan) if self._plans and plan.steps:
                self._think(plan_text(plan, self._pool.names))
            case StepStarted():
                self._workers[event.round, event.step] = event.worker
            case StepDelta() if self._chunks and (event.round, event.step) not in self._spoken:
                who = self._workers[event.round, event.step]
                self._tell(ModelClientStreamingChunkEvent(content=event.text, source=who), _place(event))
            case StepEnded():
                self._ended(event)
            case _:
                pass

    def answer(self, result: Result) -> None:
        """Tell what the run came to.

        Raises:
            RunFailed: it came to no answer.
        """
        answered(result)
        facts = {f"podium_{name}": _written(fact) for name, fact in facts_of(result).items()}
        left = _unseen(result.usage, Usage.total(self._seen.values()))
        said = TextMessage(
            content=result.answer, source=self._name, models_usage=write_usage(left), metadata=facts
        )
        self._emit(Response(chat_message=said, inner_messages=self._inner))

    def _ended(self, event: StepEnded) -> None:
        outcome = event.outcome
        if outcome.status == "failed" and self._plans and outcome.problem is not None:
            self._think(f"Step {outcome.step}, of {outcome.worker}, failed: {outcome.problem.message}")
        if outcome.status != "ok" or (outcome.round, outcome.step) in self._spoken:
            return
        told = TextMessage(content=outcome.text, source=outcome.worker)
        # What a nested conductor used stands on its agents' messages, where it has any.
        if outcome.usage.total_tokens and outcome.worker not in self._conductors:
            told.models_usage = write_usage(outcome.usage)
        self._tell(told, _place(event))

    def _think(self, text: str) -> None:
        self._tell(ThoughtEvent(content=text, source=self._name), {"podium_run_id": self._run_id})

    def _tell(self, inner: Inner, place: dict[str, str]) -> None:
        told = inner.model_copy(update={"metadata": place | inner.metadata})
        if not isinstance(told, ModelClientStreamingChunkEvent):
            self._inner.append(told)
            if (used := read_usage(told.models_usage)) is not None:
                self._seen[told.id] = used
        self._emit(told)


def _written(fact: object) -> str:
    """Return a fact in the form of a message's metadata: text as it is, all else as JSON."""
    return fact if isinstance(fact, str) else json.dumps(fact)


def _place(of: Caller | StepDelta | StepEnded) -> dict[str, str]:
    """Return which step a message is of, in the form of a message's metadata."""
    return {
        "podium_run_id": of.run_id,
        "podium_round": str(of.round),
        "podium_step": str(of.step),
        "podium_attempt": str(of.attempt),
    }


def _unseen(total: Usage, seen: Usage) -> Usage:
    """Return what of a run's tokens no message tells of."""
    left = {name: max(0, getattr(total, name) - getattr(seen, name)) for name in _COUNTS}
    return replace(total, **left)
