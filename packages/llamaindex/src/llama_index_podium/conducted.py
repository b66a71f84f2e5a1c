"""Run one call of a query engine, a retriever, an LLM or a tool with its conductor.

This module has the common part: it reports the run's steps to LlamaIndex and merges the nodes that they find.
Each caller converts the answer itself.
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore

from llama_index_podium.result_metadata import metadata_of
from llama_index_podium.sources import behind, merge
from llama_index_podium.tracing import Steps
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import ChatAnswer, ChatCall, Partial
from podium.hosts.results import plan_metadata
from podium.policy import Policy
from podium.secrets import scrub_data
from podium.types import (
    AnswerDelta,
    Event,
    Message,
    Outcome,
    Plan,
    PlannedBy,
    PlanReady,
    Sampling,
    StepEnded,
    Tools,
)


class ConductedCall:
    """One call of a query engine, a retriever, an LLM or a tool. Create one object per call.

    Args:
        conductor: the conductor that plans and runs the call.
        callbacks: the callback manager for the steps.
        asked: the question, or a conversation.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        tools: tools offered to the worker of the last step.
        sampling: sampling of that worker.
        continuation: the continuation in the message with the latest tool calls.
        session: the id by which an unfinished run of the same question is found; see `RecordedRun`.

    Raises:
        QueryError: there is no question.
    """

    def __init__(  # noqa: PLR0913 - the facts of one call
        self,
        conductor: Conductor,
        callbacks: CallbackManager,
        asked: str | Sequence[Message],
        *,
        partial: Partial,
        tools: Tools = Tools(()),  # noqa: B008 - frozen
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        continuation: object = None,
        session: str | None = None,
    ) -> None:
        self._steps = Steps(callbacks)
        self._call = ChatCall(
            conductor,
            (Message("user", asked),) if isinstance(asked, str) else asked,
            tools=tools,
            sampling=sampling,
            continuation=continuation,
            partial=partial,
            options={"middleware": self._steps.middleware},
            on_event=self._steps.tell,
            session=session,
        )
        self._plans: dict[int, Plan] = {}
        self._ended: dict[int, dict[int, Outcome]] = {}
        self.nodes: list[NodeWithScore] = []
        """The nodes that the answer depends on.

        Until the end, the list has only the nodes that were known when the first chunk was sent.
        """
        self.metadata: dict[str, Any] = {}
        """The run as metadata. Until the end, it has only the values that were known when the plan was ready.
        """

    @property
    def text(self) -> str:
        """The text streamed so far."""
        return self._call.text

    async def run(self) -> ChatAnswer:
        """Run the call and return its whole answer. Raises what `events` and `answer` raise."""
        async with aclosing(self.events(stream=False)) as events:
            async for _ in events:
                pass
        return self.answer()

    async def events(self, *, stream: bool) -> AsyncGenerator[str, None]:
        """Run the call; yield the new text of the answer at each event, empty if there is none.

        The run begins at the first item, with the caller's context variables. Leaving the iteration cancels
        the run. Raises what `Conductor.run` raises.

        Args:
            stream: whether the answer is streamed.
        """
        run_id = ""
        async with aclosing(self._call.events(stream=stream)) as events:
            async for event, text in events:
                run_id = run_id or event.run_id  # the first event belongs to the outer run
                if event.run_id == run_id:
                    self._note(event, text)
                yield text

    def answer(self) -> ChatAnswer:
        """Return the answer after `events` has ended. Raises what `ChatCall.answer` raises."""
        answer = self._call.answer()
        self.nodes[:] = merge(answer.result, self._steps.found)
        self.metadata |= metadata_of(answer.result)
        return answer

    def rest(self) -> str:
        """Return the text of the answer that was not streamed. Raises what `ChatCall.rest` raises."""
        return self._call.rest()

    def _note(self, event: Event, text: str) -> None:
        """Record the known facts about the answer before the run has ended."""
        if isinstance(event, PlanReady):
            self._plans[event.round] = event.plan
            planner = PlannedBy(event.planner, event.why, event.is_fallback)
            known = {"run_id": event.run_id, "planner": asdict(planner), "plan": plan_metadata(event.plan)}
            self.metadata |= scrub_data(known)
        elif isinstance(event, StepEnded) and event.outcome.status == "ok":
            self._ended.setdefault(event.round, {})[event.step] = event.outcome
        elif isinstance(event, AnswerDelta) and text and text == self._call.text:
            self._note_nodes(event)

    def _note_nodes(self, begun: AnswerDelta) -> None:
        """Record the nodes found before the answer began, also by the step that writes the answer."""
        number, step, attempt = begun.round, begun.step, begun.attempt
        if number is None or step is None or attempt is None or number not in self._plans:
            return
        writing = Outcome(round=number, step=step, worker="", status="ok", attempts=attempt)
        found = self._steps.found.get(begun.run_id, {})
        ended = {step: writing, **self._ended.get(number, {})}
        self.nodes[:] = behind(self._plans[number], ended, step, found)


def bound_conductor(thing: Conductor, face: str, labels: Iterable[str], policy: Policy | None) -> Conductor:
    """Return a conductor for queries with these labels, as `Conductor.bind` does.

    Args:
        thing: the conductor.
        face: the name of the caller's class, for the error.
        labels: labels of each query.
        policy: applies in addition to the policy of the conductor; `None` adds nothing.

    Raises:
        ConfigError: the object is not a conductor; see also `Conductor.bind`.
    """
    if not isinstance(thing, Conductor):
        raise ConfigError(
            f"{face} needs a conductor, not {thing!r:.80}: give Conductor(planner, workers), or use "
            f"{face}.from_defaults(workers, planner)"
        )
    return thing.bind(labels=labels, policy=policy)
