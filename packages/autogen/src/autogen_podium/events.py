"""Write a run as AutoGen messages: messages inside its workers, outputs of its steps, its answer.

A message has the tokens of the model that wrote it. The answer has all other tokens of the run. So the tokens
of all messages add up to the usage of the run.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from autogen_agentchat.base import Response
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage, ThoughtEvent

from autogen_podium.messages import read_usage, write_usage
from autogen_podium.result_metadata import message_metadata, usage_left
from autogen_podium.workers.agent import AgentWorker, Inner
from autogen_podium.workers.nested import NestedWorker
from podium.conductor import Conductor
from podium.hosts.maps import Maps
from podium.hosts.results import answered, lack_after, plan_lines, text_answer
from podium.types import Completion, Event, PlanReady, Result, StepDelta, StepEnded, StepStarted
from podium.types.result import answer_outcome
from podium.usage import Usage
from podium.workers import Caller, Request, Worker


class RunMessages:
    """Writes the messages of one run as it happens.

    Args:
        name: the agent's name, the source of the answer.
        conductor: the conductor that runs.
        emit: gets each message, and finally the response.
        plans: whether plans and failed steps are sent as `ThoughtEvent`s.
        chunks: whether text is streamed in chunks.
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
        """The usage on each sent message, by the message's id."""
        self._maps = Maps()
        self._workers: dict[tuple[int, int], str] = {}
        """The worker of each step, by round and step."""
        self._spoken: set[tuple[int, int]] = set()
        """The steps whose messages are sent from inside their agent."""

    async def middleware(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker, and send the messages inside an agent."""
        caller = request.caller
        if caller is not None and not self._chunks:
            request = replace(request, stream=False)
        if isinstance(worker, AgentWorker) and caller is not None:
            if caller.run_id == self._run_id:
                self._spoken.add((caller.round, caller.step))
            place = _step_metadata(caller, caller.path)
            call = worker.call_listened(request, lambda inner: self._tell(inner, place))
        else:
            call = worker.call(request)
        async with aclosing(call) as pieces:
            async for piece in pieces:
                yield piece

    def hear(self, event: Event) -> None:
        """Handle an event of the run; events of nested runs are ignored, as their agents send messages."""
        self._run_id = self._run_id or event.run_id  # the first event belongs to the outer run
        if event.run_id != self._run_id:
            return
        self._maps.take(event)
        match event:
            case PlanReady(plan=plan) if self._plans and plan.steps:
                self._think("\n".join(plan_lines(plan, self._pool.names)))
            case StepStarted():
                self._workers[event.round, event.step] = event.worker
            case StepDelta() if self._chunks and (event.round, event.step) not in self._spoken:
                who = self._workers[event.round, event.step]
                chunk = ModelClientStreamingChunkEvent(content=event.text, source=who)
                self._tell(chunk, _step_metadata(event, self._maps.path(event)))
            case StepEnded():
                self._ended(event)
            case _:
                pass

    def answer(self, result: Result) -> None:
        """Send the response.

        Raises:
            RunFailed: the run has no answer.
        """
        answered(result)
        last = answer_outcome(result.rounds)
        if self._chunks and last is not None and (lack := lack_after(result)):
            place = Caller(run_id=result.run_id, round=last.round, step=last.step, attempt=last.attempts)
            chunk = ModelClientStreamingChunkEvent(content=lack, source=last.worker)
            self._tell(chunk, _step_metadata(place, ""))
        left = usage_left(result.usage, Usage.total(self._seen.values()))
        message = TextMessage(
            content=text_answer(result),
            source=self._name,
            models_usage=write_usage(left),
            metadata=message_metadata(result),
        )
        self._emit(Response(chat_message=message, inner_messages=self._inner))

    def _ended(self, event: StepEnded) -> None:
        outcome = event.outcome
        if outcome.status == "failed" and self._plans and outcome.problem is not None:
            self._think(f"Step {outcome.name} ({outcome.worker}) failed: {outcome.problem.message}")
        if outcome.status != "ok" or (outcome.round, outcome.step) in self._spoken:
            return
        told = TextMessage(content=outcome.text, source=outcome.worker)
        # The tokens of a nested conductor are on its agents' messages, if it has agents.
        if outcome.usage.total_tokens and outcome.worker not in self._conductors:
            told.models_usage = write_usage(outcome.usage)
        self._tell(told, _step_metadata(event, outcome.path))

    def _think(self, text: str) -> None:
        self._tell(ThoughtEvent(content=text, source=self._name), {"podium_run_id": self._run_id})

    def _tell(self, inner: Inner, place: dict[str, str]) -> None:
        told = inner.model_copy(update={"metadata": place | inner.metadata})
        if not isinstance(told, ModelClientStreamingChunkEvent):
            self._inner.append(told)
            if (used := read_usage(told.models_usage)) is not None:
                self._seen[told.id] = used
        self._emit(told)


def _step_metadata(of: Caller | StepDelta | StepEnded, path: str) -> dict[str, str]:
    """Return the metadata that names the step of a message; `path` is its name in maps and blocks."""
    own = {"podium_path": path} if path else {}
    return own | {
        "podium_run_id": of.run_id,
        "podium_round": str(of.round),
        "podium_step": str(of.step),
        "podium_attempt": str(of.attempt),
    }
