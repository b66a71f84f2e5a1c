"""`podium check`: call each worker and the planner once, open the journal, and show what works."""

from collections.abc import Iterator, Sequence

import anyio
import typer
from rich.table import Column, Table
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath
from podium.cli.probe import (
    Probe,
    hosted_probe,
    journal_probe,
    measured_probe,
    planner_probe,
    policy_probe,
    price_told,
    window_told,
    worker_probe,
)
from podium.cli.screen import NO_ANSWER, Screen, reporting
from podium.config import Config, find_config, load_config
from podium.workers import FREE


def check(*, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Call each worker and the planner, open the journal, and show what works.

    Each worker and the planner are called once. MCP servers list their tools and resources; no tool is
    called.

    Prices and context windows of models come from the config, or from genai-prices for known
    providers.
    """
    with reporting() as screen:
        _check(screen, load_config(find_config(config)), as_json=as_json)


def _check(screen: Screen, config: Config, *, as_json: bool) -> None:
    """Call each worker and the planner once and show the results; exit with 1 if one fails."""
    probes = [hosted_probe(config)] if config.is_hosted else _probes(config)
    anyio.run(_run_all, probes)
    if as_json:
        ok = all(probe.error is None for probe in probes)
        screen.result_json({"ok": ok, "parts": [probe.to_json() for probe in probes]})
    else:
        screen.draw(_table(screen, probes))
        for probe in probes:
            for line in (*_facts(probe), *_offered(probe)):
                screen.result(line)
        for probe in probes:
            for warning in probe.warnings:
                screen.result(f"! {_named(probe)}: {warning}")
        for probe in probes:
            if probe.error is not None:  # a narrow terminal would break up a column
                screen.result(f"✗ {_named(probe)}: {' '.join(probe.error.split())}")
    if any(probe.error is not None for probe in probes):
        raise typer.Exit(NO_ANSWER)


def _named(probe: Probe) -> str:
    return probe.name if probe.name == probe.role else f"{probe.role} {probe.name}"


def _probes(config: Config) -> list[Probe]:
    measured = measured_probe(config)  # first, because the planner reads the rates on the cards
    probes = [worker_probe(config, name) for name in config.worker_names]
    built = [worker for probe in probes if probe.error is None for worker in config.workers(probe.name)]
    built.extend(config.planner_workers())
    cards = [card for probe in probes for card in probe.cards]
    cards.extend(worker.card for worker in config.planner_workers())
    planner = planner_probe(config, tuple(cards), built)
    policy = policy_probe(config) if all(probe.error is None for probe in probes) else None
    files = [probe for probe in (policy, measured, journal_probe(config)) if probe is not None]
    return [*probes, planner, *files]


async def _run_all(probes: Sequence[Probe]) -> None:
    async with anyio.create_task_group() as calls:
        for probe in probes:
            calls.start_soon(probe.run)


def _facts(probe: Probe) -> Iterator[str]:
    """Yield a line with the price, the context window and the kinds of structured output of a part."""
    if probe.found:
        yield f"measured rates: {probe.place} has rates of {probe.found}"
    elif probe.role == "journal" and probe.place:
        yield f"journal: runs are recorded in {probe.place}"
    if probe.card is not None and (probe.model is not None or probe.card.price != FREE):
        window, structured = window_told(probe.card), ", ".join(probe.structured) or "no"
        known = f"context window {window}; structured output: {structured}"
        yield f"{probe.role} {probe.name}: price per million tokens: {price_told(probe.card)}; {known}"


def _offered(probe: Probe) -> Iterator[str]:
    """Yield a line for each tool and resource of an MCP server."""
    for offer, name, is_used in probe.named_offers():
        use = "" if is_used else "not used; "
        acts = "acts; " if offer.acts else ""
        yield f"{name} ({offer.kind}): {use}{acts}{offer.description}"


def _table(screen: Screen, probes: Sequence[Probe]) -> Table:
    amounts = (Column(head, justify="right") for head in ("latency", "tokens"))
    table = Table("", "part", "name", "model", *amounts, box=None, header_style="dim", pad_edge=False)
    for probe in probes:
        mark = Text("✓", style="green") if probe.error is None else Text("✗", style="red")
        about = "about " if probe.usage.estimated else ""
        table.add_row(
            mark,
            probe.role,
            Text(screen.shown(probe.name)),
            Text(screen.shown(probe.model or "-")),
            "-" if probe.seconds is None else f"{probe.seconds:.2f} s",
            f"{about}{probe.usage.total_tokens:,}",
        )
    return table
