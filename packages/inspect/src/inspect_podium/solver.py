"""A conductor as a solver of Inspect."""

from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver

from inspect_podium.messages import METADATA
from inspect_podium.model import conductor_model
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.hosts import Partial
from podium.hosts.results import check_partial


@solver
def conductor(
    config: str | None = None,
    *,
    partial: Partial = "return",
    journal: bool = False,
    made: Conductor | None = None,
) -> Solver:
    """Return a solver that answers each sample with a run of a conductor.

    The transcript has the plan as a table. The usage in the log is of `podium/conductor`. The metadata of the
    sample has the plan, the steps and their whole outputs, under `podium`.

    Args:
        config: a `podium.toml`; `None` looks for it as the command line does.
        partial: whether an incomplete answer is an answer (`return`) or an error of the sample (`raise`).
        journal: whether runs are recorded in the journal of the config.
        made: your own conductor; replaces the conductor of a config.

    Raises:
        ConfigError: there is no config, or it is wrong.
    """
    check_partial(partial)
    used = made or load_config(find_config(config)).conductor(journaled=journal)
    model = conductor_model(used, partial=partial)

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - the interface has this parameter
        # A model of Inspect, which writes its usage to the log.
        return answered(state, await model.generate(state.messages))

    return solve


def answered(state: TaskState, output: ModelOutput) -> TaskState:
    """Return the state with a run's answer. The facts of the run are in the metadata."""
    facts = (output.metadata or {})[METADATA]
    state.output = output
    state.messages.append(output.choices[0].message)
    state.metadata[METADATA] = facts
    return state
