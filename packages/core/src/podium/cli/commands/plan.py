"""`podium plan`: plan a question without running the plan."""

from functools import partial
from typing import Annotated

import anyio
import typer
from rich.text import Text

from podium.cli import drawing
from podium.cli.arguments import AsJson, ConfigPath, Labels, Question, names
from podium.cli.question import read_question
from podium.cli.screen import Screen, reporting
from podium.conductor import Conductor
from podium.config import find_config, load_config
from podium.errors import ConfigError
from podium.hosted import HostedConductor


def plan(
    question: Question = None,
    *,
    labels: Labels = "",
    config: ConfigPath = None,
    as_json: AsJson = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw only the mermaid flowchart.")] = False,
) -> None:
    """Show the plan for a question, as a table and a flowchart, and run nothing.

    `podium run --plan` runs a plan that was saved with --json.
    """
    with reporting() as screen:
        conductor = load_config(find_config(config)).conductor(journaled=False)
        asked = read_question(question)
        _show(screen, conductor, asked, names(labels), as_json=as_json, mermaid=mermaid)


def _show(
    screen: Screen,
    conductor: Conductor | HostedConductor,
    question: str,
    labels: frozenset[str],
    *,
    as_json: bool,
    mermaid: bool,
) -> None:
    """Plan a question with its labels, and show the plan.

    Raises:
        PodiumError: the conductor is hosted, or planning failed.
    """
    if isinstance(conductor, HostedConductor):
        raise ConfigError(
            "a hosted conductor does not show its plans: use a config with a planner and workers"
        )
    made = anyio.run(partial(conductor.plan, question, labels=labels))
    workers = conductor.pool.names
    if made.why:
        screen.note(made.why)
    screen.draw_note(*drawing.forecast(conductor.forecast(made), screen.shown))
    if as_json:
        screen.result_json(made.to_json())
        return
    if not mermaid:
        screen.draw(drawing.plan_table(made, workers, screen.shown), Text())
    screen.result(made.to_mermaid(workers))
