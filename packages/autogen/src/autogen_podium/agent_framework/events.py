"""Write a run as updates of an agent's response."""

from collections.abc import Callable
from typing import Any

from agent_framework import AgentResponseUpdate, BaseAgent, Content

from autogen_podium.agent_framework.messages import write_usage
from podium.hosts import ChatAnswer, ChatCall
from podium.types import Event, StepEnded


class RunUpdates:
    """Writes the updates of one run: the answer as it is written, and the outputs of the steps.

    Args:
        agent: the agent that answers.
        emit: gets each update.
        steps: whether the steps' outputs are sent, as reasoning.
    """

    def __init__(self, agent: BaseAgent, emit: Callable[[AgentResponseUpdate], None], *, steps: bool) -> None:
        self._agent = agent
        self._emit = emit
        self._steps = steps
        self._run_id = ""

    def hear(self, event: Event, text: str) -> None:
        """Handle an event of the run or of a nested run, with the new text of the answer in it."""
        self._run_id = self._run_id or event.run_id  # the first event belongs to the outer run
        if text:
            self._update(Content.from_text(text))
        if self._steps and isinstance(event, StepEnded) and event.run_id == self._run_id:
            self._step(event)

    def end(self, call: ChatCall, answer: ChatAnswer) -> None:
        """Send the unsent rest of the answer, or the whole answer if it differs, and the usage."""
        if not answer.text.startswith(call.text):
            self._update(Content.from_text(answer.text), merge_mode="replace")
        elif rest := call.rest():
            self._update(Content.from_text(rest))
        finish: Any = answer.host_finish_reason
        self._update(Content.from_usage(write_usage(answer.usage)), finish_reason=finish)

    def _step(self, event: StepEnded) -> None:
        outcome = event.outcome
        if outcome.status != "ok":
            return
        properties: dict[str, Any] = {"podium_round": outcome.round, "podium_step": outcome.step}
        properties |= {"podium_path": outcome.path} if outcome.path else {}
        update = AgentResponseUpdate(
            contents=[Content.from_text_reasoning(text=outcome.text)],
            role="assistant",
            author_name=outcome.worker,
            agent_id=self._agent.id,
            response_id=self._run_id,
            message_id=f"{self._run_id}:{outcome.round}:{outcome.step}",
            additional_properties=properties,
        )
        self._emit(update)

    def _update(self, content: Content, **how: Any) -> None:
        update = AgentResponseUpdate(
            contents=[content],
            role="assistant",
            author_name=self._agent.name,
            agent_id=self._agent.id,
            response_id=self._run_id,
            message_id=self._run_id,
            **how,
        )
        self._emit(update)
