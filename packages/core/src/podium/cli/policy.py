"""`podium policy`: test the policy with flows of data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import Field
from rich.table import Column
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath
from podium.cli.drawing import plain_table
from podium.cli.root import command_group
from podium.cli.screen import NO_ANSWER, Screen, counted, reporting
from podium.config import Section, find_config, load_config
from podium.config.load import read_table
from podium.errors import ConfigError, PlanForbidden
from podium.policy import Policy
from podium.types.plan import Plan, nearest
from podium.types.steps import Step
from podium.workers.worker import Card

policy = command_group("policy")


class FlowSection(Section):
    """`[[flow]]`: workers, each of which sees the output of the worker before it."""

    workers: Annotated[list[str], Field(min_length=1)]
    """Names of workers, in the order of the data."""
    labels: list[str] = Field(default_factory=list)
    """Labels of the query."""
    expect: Literal["refused", "allowed"]
    """What the policy must do with the flow."""


class FlowFile(Section):
    """A file of flows."""

    flow: Annotated[list[FlowSection], Field(min_length=1)]
    """The flows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A flow, and what the policy does with it."""

    flow: str
    """Names of the workers."""
    labels: tuple[str, ...]
    expect: str
    found: str
    """`refused` or `allowed`."""
    why: str

    @property
    def is_good(self) -> bool:
        """Whether the policy does what is expected."""
        return self.found == self.expect


@policy.callback()
def about() -> None:
    """Test the policy with flows of data."""


@policy.command("test")
def flows(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The flows, in TOML.")],
    *,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Test whether the policy refuses and allows the flows of a file.

    A flow is a table [[flow]] with `workers` (each sees the output of the one before), `labels` of the query,
    and `expect`, which is "refused" or "allowed". Nothing runs. The exit code is 1 if the policy does
    something else.
    """
    with reporting() as screen:
        loaded = load_config(find_config(config))
        own, cards = loaded.policy(), loaded.parties()
        found = [_of_flow(flow, own, cards) for flow in read_table(file, FlowFile).flow]
        _show(screen, found, as_json=as_json)


def _show(screen: Screen, found: Sequence[Finding], *, as_json: bool) -> None:
    wrong = sum(not each.is_good for each in found)
    if as_json:
        screen.result_json({"ok": not wrong, "flows": [asdict(f) | {"ok": f.is_good} for f in found]})
    else:
        columns = (Column(head, overflow="fold") for head in ("flow", "labels", "expected", "found", "why"))
        table = plain_table("", *columns)
        for each in found:
            mark = Text("✓", style="green") if each.is_good else Text("✗", style="red")
            facts = (each.flow, ", ".join(each.labels) or "-", each.expect, each.found, each.why or "-")
            table.add_row(mark, *(Text(screen.shown(fact)) for fact in facts))
        screen.draw(table)
        screen.note(f"podium: {counted(len(found), 'flow')}, {wrong} not as expected")
    if wrong:
        raise typer.Exit(NO_ANSWER)


def _of_flow(flow: FlowSection, own: Policy, cards: Sequence[Card]) -> Finding:
    """Return what the policy does with a flow; `ConfigError` for a worker or a label that does not exist."""
    names = [card.name for card in cards]
    for name in flow.workers:
        if name not in names:
            near = nearest(name, names)
            hint = f"did you mean {near!r}?" if near else f"the workers are {', '.join(names)}"
            raise ConfigError(f"a flow names {name!r}, which the file lacks: {hint}")
    own.check_labels(flow.labels, cards)
    steps = enumerate(map(names.index, flow.workers))
    plan = Plan(tuple(Step(number, "x", (index - 1,) if index else ()) for index, number in steps))
    try:
        own.verify(plan, cards, frozenset(flow.labels), frozenset())
        found, why = "allowed", ""
    except PlanForbidden as error:
        found, why = "refused", str(error)
    return Finding(" → ".join(flow.workers), tuple(flow.labels), flow.expect, found, why)
