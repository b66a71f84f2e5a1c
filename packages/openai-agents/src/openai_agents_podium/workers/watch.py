"""Watch an agent's run: its tokens, and the finish reasons of its models."""

from typing import Any

from agents import Agent, ModelResponse, RunContextWrapper, RunHooks, TResponseInputItem, Usage as AgentsUsage
from typing_extensions import override

from openai_agents_podium.messages import read_usage
from openai_agents_podium.workers.finish import Finishes
from podium.usage import Usage


class RunWatch(RunHooks[Any]):
    """The hooks of one run."""

    def __init__(self) -> None:
        self.finishes = Finishes()
        self.asked_a_model = False
        self.has_answered = False
        """Whether a model has answered, so that a tool may have run."""
        self._under_way = 0
        self._usage = AgentsUsage()

    @property
    def is_asking(self) -> bool:
        """Whether a model call has started and not ended."""
        return self._under_way > 0

    def finished_usage(self) -> Usage | None:
        """Return the tokens of the answers so far; `None` before the first, or if some are unknown."""
        used = read_usage(self._usage)
        return None if used == Usage() else used

    @override
    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Record the start of a model call."""
        self.asked_a_model = True
        self._under_way += 1
        self._usage = context.usage

    @override
    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Record the end of a model call."""
        self._under_way -= 1
        self.has_answered = True
