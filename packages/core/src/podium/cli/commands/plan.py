"""`podium plan`: what would be done, and nothing of it."""

from functools import partial

import anyio
from rich.text import Text

from podium.cli.plan_table import plan_table
from podium.cli.screen import Screen
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.types.forecast import explain_forecast


def show_plan(
    screen: Screen,
    conductor: Conductor | HostedConductor,
    question: str,
    labels: frozenset[str],
    *,
    as_json: bool,
    mermaid: bool,
) -> None:
    """Plan `question`, which carries `labels`, and show the plan.

    Raises:
        PodiumError: there is no plan, and why.
    """
    if isinstance(conductor, HostedConductor):
        raise ConfigError("a hosted conductor shows no plan: use a config with a planner and workers")
    plan = anyio.run(partial(conductor.plan, question, labels=labels))
    names = conductor.pool.names
    screen.note(f"{plan.why}\n{explain_forecast(conductor.forecast(plan))}")
    if as_json:
        screen.result_json(plan.to_json())
        return
    if not mermaid:
        screen.draw(plan_table(plan, names, screen.shown), Text())
    screen.result(plan.to_mermaid(names))
