"""Tells a run as updates of Agent Framework's. It knows no session and no worker."""

from collections.abc import Callable
from inspect import signature
from typing import Any, Final

from agent_framework import AgentResponseUpdate, BaseAgent, Content, __version__

from autogen_podium.agent_framework.messages import write_usage
from podium.errors import RunFailed
from podium.types import AnswerDelta, Event, Result, StepEnded

_REPLACES: Final = "merge_mode" in signature(AgentResponseUpdate.__init__).parameters
"""Whether an update can take back what those before it told."""


class Updates:
    """One run: its answer as it is written, or at its end, once a step is tried again.

    Args:
        agent: whose answer it is.
        emit: takes each update.
        steps: whether what the steps came to is told, as reasoning.
    """

    def __init__(self, agent: BaseAgent, emit: Callable[[AgentResponseUpdate], None], *, steps: bool) -> None:
        self._agent = agent
        self._emit = emit
        self._steps = steps
        self._run_id = ""
        self._attempt: tuple[int | None, int | None, int | None] | None = None
        self._sent = ""

    def hear(self, event: Event) -> None:
        """Take an event of the run, or of one nested in it."""
        self._run_id = self._run_id or event.run_id  # the first event is the run's own
        if event.run_id != self._run_id:
            return
        match event:
            case AnswerDelta():
                attempt = (event.round, event.step, event.attempt)
                self._attempt = self._attempt or attempt
                if attempt == self._attempt:
                    self._sent += event.text
                    self._update(Content.from_text(event.text))
            case StepEnded(outcome=outcome) if self._steps and outcome.status == "ok":
                update = AgentResponseUpdate(
                    contents=[Content.from_text_reasoning(text=outcome.text)],
                    role="assistant",
                    author_name=outcome.worker,
                    agent_id=self._agent.id,
                    response_id=self._run_id,
                    message_id=f"{self._run_id}:{outcome.round}:{outcome.step}",
                    additional_properties={"podium_round": outcome.round, "podium_step": outcome.step},
                )
                self._emit(update)
            case _:
                pass

    def end(self, result: Result) -> None:
        """Tell what of the answer was not told yet, and what was used.

        Raises:
            RunFailed: what was told cannot be taken back, in this version of Agent Framework.
        """
        if not result.answer.startswith(self._sent):
            if not _REPLACES:
                error = RunFailed(
                    f"the answer is another than what was streamed, and agent-framework-core {__version__} "
                    "cannot replace that: ask without stream=True, or install a newer version"
                )
                error.result = result
                raise error
            self._update(Content.from_text(result.answer), merge_mode="replace")
        elif rest := result.answer[len(self._sent) :]:
            self._update(Content.from_text(rest))
        self._update(Content.from_usage(write_usage(result.usage)))

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
