"""What is known of a run of an agent while it runs: its tokens, and why its models stopped."""

from typing import Any

from agents import Agent, ModelResponse, RunContextWrapper, RunHooks, TResponseInputItem, Usage as AgentsUsage
from typing_extensions import override

from openai_agents_podium.messages import read_usage
from openai_agents_podium.workers.finish import Finishes
from podium.usage import Usage


class RunWatch(RunHooks[Any]):
    """Hooks of one run."""

    def __init__(self) -> None:
        self.finishes = Finishes()
        self.asked_a_model = False
        self._under_way = 0
        self._usage = AgentsUsage()

    @property
    def is_asking(self) -> bool:
        """Whether a model was asked and has not answered."""
        return self._under_way > 0

    def finished_usage(self) -> Usage | None:
        """Return the tokens of the answers so far; `None` where there are none, or one has no count."""
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
        """Note that a model is asked."""
        self.asked_a_model = True
        self._under_way += 1
        self._usage = context.usage

    @override
    async def on_llm_end(
        self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse
    ) -> None:
        """Note that it has answered."""
        self._under_way -= 1
