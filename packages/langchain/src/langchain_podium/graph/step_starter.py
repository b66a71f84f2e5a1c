"""Start the steps of a run's rounds in a graph: execute the current round, and postpone later ones."""

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphInterrupt

from langchain_podium.graph.around import CHECKPOINTER
from langchain_podium.graph.plan_graph import carry_out
from podium.errors import ConfigError
from podium.execution import ExternalScheduler, Pause


class GraphStepStarter:
    """Executes the steps of one round as a graph, and postpones later rounds.

    Args:
        config: the configuration of the node.
        number: the number of the round whose plan is stored; `None` means any, if nothing is stored.
        is_sync: whether sync code called the outer graph.
    """

    def __init__(self, config: RunnableConfig, number: int | None, *, is_sync: bool) -> None:
        self._config = config
        self._number = number
        self._is_sync = is_sync
        self.interrupt: GraphInterrupt | None = None
        """The interrupt to raise from the node after the run is paused, because a step waits for a person."""

    async def __call__(self, steps: ExternalScheduler) -> None:
        """Execute a round as far as possible.

        Raises:
            Pause: the round is postponed, or paused halfway.
        """
        if self._number is not None and steps.round > self._number:
            raise Pause
        if self._number is not None and steps.round < self._number:
            for index in range(len(steps.plan.steps)):  # all of them have ended, and are restored
                await steps.run(index)
            return
        try:
            # LangGraph adds the node's callbacks to those around the run, which do not stream: pass the
            # latter.
            config = RunnableConfig(**{**self._config, "callbacks": ensure_config().get("callbacks")})
            await carry_out(steps, config, is_sync=self._is_sync)
        except GraphInterrupt as raised:
            self.interrupt = raised
            raise Pause from None


def check_checkpointer(config: RunnableConfig) -> None:
    """Check that a plan can wait in the graph, before anything is paid for.

    Raises:
        ConfigError: the graph has no checkpointer.
    """
    if not config.get("configurable", {}).get(CHECKPOINTER):
        raise ConfigError(
            "the run waits for approvals, but the graph has no checkpointer to store it: use "
            "graph.compile(checkpointer=...) or create_conductor_agent(..., checkpointer=...)"
        )


def is_kept(config: RunnableConfig) -> bool:
    """Return whether a checkpointer stores the graph's state, which then has a thread."""
    return "thread_id" in config.get("configurable", {})
