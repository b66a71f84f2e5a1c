"""Who starts the steps of a run's rounds in a graph: which round is carried out now, and which put off."""

from typing import Final

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphInterrupt

from langchain_podium.graph.plan_graph import carry_out
from podium.errors import ConfigError
from podium.execution import ExternalScheduler, Pause

_CHECKPOINTER: Final = "__pregel_checkpointer"
"""Key of the configuration under which LangGraph gives a node the checkpointer of its graph."""


class GraphStepStarter:
    """Carries the steps of one round out as a graph, and puts off those of a later one.

    Args:
        config: that of the node it works in.
        number: the round's, whose plan is kept; `None` for any, where nothing is kept.
        is_sync: whether the graph around it was called by code that is not async.
    """

    def __init__(self, config: RunnableConfig, number: int | None, *, is_sync: bool) -> None:
        self._config = config
        self._number = number
        self._is_sync = is_sync
        self.interrupt: GraphInterrupt | None = None
        """What the node is to be left by once the run rests: a step waits for somebody."""

    async def __call__(self, steps: ExternalScheduler) -> None:
        """Carry a round out, as far as it goes.

        Raises:
            Pause: the round is put off, or rests half-way.
        """
        if self._number is not None and steps.round > self._number:
            raise Pause
        if self._number is not None and steps.round < self._number:
            for index in range(len(steps.plan.steps)):  # all of them have ended, and are handed back
                await steps.run(index)
            return
        try:
            # LangGraph adds the node's callbacks to those around the run, which do not stream: give these.
            config = RunnableConfig(**{**self._config, "callbacks": ensure_config().get("callbacks")})
            await carry_out(steps, config, is_sync=self._is_sync)
        except GraphInterrupt as raised:
            self.interrupt = raised
            raise Pause from None


async def pause_round(_: ExternalScheduler) -> None:
    """Put off every round.

    Raises:
        Pause: always.
    """
    raise Pause


def check_checkpointer(config: RunnableConfig) -> None:
    """Check that a plan can wait in the graph, before anything is paid for.

    Raises:
        ConfigError: the graph has no checkpointer.
    """
    if not config.get("configurable", {}).get(_CHECKPOINTER):
        raise ConfigError(
            "plans wait for approval, and the graph has no checkpointer to keep them: compile it with one, "
            "as in graph.compile(checkpointer=...) or create_conductor_agent(..., checkpointer=...)"
        )


def is_kept(config: RunnableConfig) -> bool:
    """Say whether a checkpointer keeps the graph's state, which then has a thread."""
    return "thread_id" in config.get("configurable", {})
