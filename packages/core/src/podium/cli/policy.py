"""`podium policy`: test the policy with flows of data, and with the plans of recorded runs."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import anyio
import typer
from pydantic import Field
from rich.table import Column, Table
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath, Since
from podium.cli.root import command_group
from podium.cli.screen import NO_ANSWER, Screen, counted, reporting
from podium.config import Config, Section, find_config, load_config, read_table
from podium.errors import ConfigError, PlanForbidden
from podium.journal import Journal
from podium.policy import Policy, labels_of
from podium.run_state.state import fold
from podium.types.events import Event, RunStarted
from podium.types.names import nearest
from podium.types.plan import Plan, Step
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
    """A flow or a recorded plan, and what the policy does with it."""

    flow: str
    """Names of the workers, or id and round of a recorded run."""
    labels: tuple[str, ...]
    expect: str
    """`refused` or `allowed`; a recorded plan must be allowed."""
    found: str
    """`refused`, `allowed`, or `unknown` for a plan whose workers do not exist."""
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
    since: Since = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Test whether the policy refuses and allows the flows of a file.

    A flow is a table [[flow]] with `workers` (each sees the output of the one before), `labels` of the query,
    and `expect`, which is "refused" or "allowed". With --since, the plans of recorded runs must be allowed,
    too. Nothing runs. The exit code is 1 if the policy does something else.
    """
    with reporting() as screen:
        loaded = load_config(find_config(config))
        own, cards = loaded.policy(), loaded.parties()
        found = [_of_flow(flow, own, cards) for flow in read_table(file, FlowFile).flow]
        if since is not None:
            found += anyio.run(_of_runs, _journal(loaded), since, own, cards)
        _show(screen, found, as_json=as_json)


def _journal(config: Config) -> Journal:
    journal = config.journal()
    if journal is None:
        raise ConfigError("--since needs recorded runs, and [journal] is off: leave it out")
    return journal


def _show(screen: Screen, found: Sequence[Finding], *, as_json: bool) -> None:
    wrong = sum(not each.is_good for each in found)
    if as_json:
        screen.result_json({"ok": not wrong, "flows": [asdict(f) | {"ok": f.is_good} for f in found]})
    else:
        columns = (Column(head, overflow="fold") for head in ("flow", "labels", "expected", "found", "why"))
        table = Table("", *columns, box=None, header_style="dim", pad_edge=False)
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
    found, why = _verdict(own, plan, cards, frozenset(flow.labels), frozenset())
    return Finding(" → ".join(flow.workers), tuple(flow.labels), flow.expect, found, why)


def _verdict(
    own: Policy, plan: Plan, cards: Sequence[Card], labels: frozenset[str], previous: frozenset[str]
) -> tuple[str, str]:
    try:
        own.verify(plan, cards, labels, previous)
    except PlanForbidden as error:
        return "refused", str(error)
    return "allowed", ""


async def _of_runs(journal: Journal, since: float, own: Policy, cards: Sequence[Card]) -> list[Finding]:
    """Return what the policy does with the plans of recorded runs."""
    found = list[Finding]()
    async with journal:
        for row in await journal.runs(limit=None, since=since):
            events = [entry.event for entry in await journal.read(row.run_id)]
            found += _of_run(events, own, cards)
    return found


def _of_run(events: Sequence[Event], own: Policy, cards: Sequence[Card]) -> Iterator[Finding]:
    """Yield what the policy does with each plan of a recorded run."""
    result, names = fold(events).result(), [card.name for card in cards]
    first = events[0]
    labels = first.labels if isinstance(first, RunStarted) else frozenset[str]()
    previous = frozenset[str]()
    for current in result.rounds:
        plan = current.plan
        if plan is None or not plan.steps:
            continue
        told = f"run {result.run_id}, round {current.number}"
        gone = {result.workers[step.worker] for step in plan.steps} - {*names}
        if gone:
            why = f"the file has no worker {', '.join(sorted(gone))}"
            yield Finding(told, tuple(sorted(labels)), "allowed", "unknown", why)
            return
        plan = plan.renumbered([names.index(name) if name in names else 0 for name in result.workers])
        yield Finding(told, tuple(sorted(labels)), "allowed", *_verdict(own, plan, cards, labels, previous))
        flows = labels_of(plan, cards, labels, previous)
        previous = frozenset[str]().union(*(flow.output for flow in flows))
        labels |= previous  # the planner of the next round has seen them
