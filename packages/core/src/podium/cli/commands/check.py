"""`podium check`: call each worker and the planner once, open the journal, and show what works."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
import typer
from rich.table import Column, Table
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath
from podium.cli.screen import NO_ANSWER, Screen, remedies, reporting
from podium.config import Config, find_config, load_config
from podium.config.source import in_toml
from podium.errors import (
    ConfigError,
    PlanError,
    PlannerError,
    PodiumError,
    WorkerError,
    WorkerFailed,
    WorkerTimeout,
)
from podium.hosted import HostedConductor
from podium.journal import SqlJournal
from podium.plan_text.parser import parse_plan
from podium.planners.chat import ChatPlanner
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.run.no_plan import for_people
from podium.run.plan_request import tight_cost
from podium.secrets import Boundary
from podium.types.messages import Message, read_query
from podium.types.outcome import Problem, Proposal
from podium.usage import Usage
from podium.workers import FREE
from podium.workers.openai.chat import ChatWorker
from podium.workers.rates import MeasuredFile, put_on_cards, read_measured
from podium.workers.worker import Card, Price, Request, StepInput, VisibleStep, Worker, complete

if TYPE_CHECKING:
    from podium.mcp import McpServer, Offer


T = TypeVar("T")

QUESTION = "What is 2 + 2? Answer with the number."
SECONDS = 30.0
"""Timeout of a test call, in seconds; reasoning models are slow."""
_JOURNAL_SECONDS = 5.0
"""How long the test of the journal retries while its database fails, in seconds."""
_GRACE = 1.0
"""Seconds after the timeout in which a worker can still report its own timeout error."""


@dataclass(slots=True, kw_only=True)
class Probe:
    """A worker, planner or MCP server of a config, and the result of its test call."""

    name: str
    role: Literal["worker", "planner", "conductor", "mcp server", "policy", "journal", "measured rates"]
    model: str | None = None
    """`None` if the part is not a model."""
    card: Card | None = None
    structured: tuple[str, ...] = ()
    """The kinds of structured output that its server supports: `json`, `grammar`."""
    call: Callable[[], Awaitable[Usage]] | None = None
    """Calls the part; `None` if the part could not be built."""
    seconds: float | None = None
    """Duration of the test call; `None` without a call."""
    usage: Usage = Usage()
    error: str | None = None
    """The error; `None` if the part works."""
    place: str = ""
    """The file or URL of the journal, or the file of measured rates; empty for other parts."""
    found: str = ""
    """The workers, kinds and latest day in the file of measured rates; empty for other parts."""
    warnings: tuple[str, ...] = ()
    """Why the plans of a planner may be worse than it can write."""
    offered: tuple[Card, ...] = ()
    """The cards of the workers that the config makes from an MCP server."""
    offers: "Sequence[Offer]" = ()
    """All tools and resources of an MCP server, whether the config uses them or not."""

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards of this part's workers, for the planner."""
        return self.offered or (self.card or Card(name=self.name),)

    async def run(self) -> None:
        """Call the part, if it could be built, and store the result."""
        if self.call is None:
            return
        began = anyio.current_time()
        try:
            who = f"{self.role} {self.name!r}"
            with anyio.fail_after(SECONDS + _GRACE), Boundary(who, WorkerFailed, is_library=True):
                self.usage = await self.call()
        except (PodiumError, TimeoutError) as error:
            self.error = _told(error)
        self.seconds = anyio.current_time() - began

    def to_json(self) -> dict[str, Any]:
        """Return the probe as JSON data."""
        card = self.card or Card(name=self.name)
        return {
            "name": self.name,
            "role": self.role,
            "model": self.model,
            "ok": self.error is None,
            "seconds": self.seconds,
            "tokens": self.usage.total_tokens,
            "price": None if card.price is None else asdict(card.price),
            "price_source": _source(card.price, card.price_source),
            "context_window": card.context_window,
            "context_window_source": _source(card.context_window, card.context_window_source),
            "structured_output": list(self.structured),
            "offers": [
                {**asdict(offer), "worker": name if is_used else None}
                for offer, name, is_used in self.named_offers()
            ],
            "place": self.place or None,
            "found": self.found or None,
            "warnings": list(self.warnings),
            "error": self.error,
        }

    def named_offers(self) -> "list[tuple[Offer, str, bool]]":
        """Return each offer of an MCP server, the name of its worker, and whether the pool has it."""
        names = {card.name for card in self.offered}
        named = [(offer, f"{self.name}.{offer.name}") for offer in self.offers]
        return [(offer, name, name in names) for offer, name in named]


def price_told(card: Card) -> str:
    """Format a price with its source."""
    price = card.price
    if price is None:
        return "unknown"
    more = "".join(f"; above {tier.above:,} tokens ${_rates(tier.price)}" for tier in price.tiers)
    return f"${_rates(price)}{more} ({_source(price, card.price_source)})"


def window_told(card: Card) -> str:
    """Format a context window with its source."""
    if card.context_window is None:
        return "unknown"
    return f"{card.context_window:,} ({_source(card.context_window, card.context_window_source)})"


def _rates(price: Price) -> str:
    return f"{price.input:g} in, {price.output:g} out"


def _source(fact: object, source: str) -> str | None:
    return None if fact is None else source or "config"


def worker_probe(config: Config, name: str) -> Probe:
    """Return a probe that asks a worker for 2 + 2, or an MCP server for its tools and resources."""
    if config.has_mcp_server(name):
        return _mcp_probe(config, name)
    probe = Probe(name=name, role="worker")
    worker = _made(probe, partial(config.worker, name))
    if worker is not None:
        probe.card, probe.model = worker.card, _model(worker)
        probe.structured = tuple(sorted(worker.constraint_kinds))
        probe.call = partial(_ask_worker, probe, worker)
    return probe


async def _ask_worker(probe: Probe, worker: Worker) -> Usage:
    usage = await _ask(worker)
    if isinstance(worker, ChatWorker) and worker.acts and not worker.endpoint.provider.acts:
        probe.warnings += ('its server is a Podium, and it acts: write provider = "podium" for its endpoint',)
    return usage


def _mcp_probe(config: Config, name: str) -> Probe:
    """Return a probe that lists the offers of an MCP server and calls no tool."""
    probe = Probe(name=name, role="mcp server")
    server = _made(probe, partial(config.mcp_server, name))
    workers = None if server is None else _made(probe, partial(config.workers, name))
    if server is not None and workers is not None:
        probe.offered = tuple(worker.card for worker in workers)
        probe.call = partial(_list_offers, probe, server)
    return probe


async def _list_offers(probe: Probe, server: "McpServer") -> Usage:
    probe.offers = await server.offers()
    return Usage()


def planner_probe(config: Config, cards: tuple[Card, ...], workers: Sequence[Worker]) -> Probe:
    """Return a probe that asks the planner for a plan with the workers of `cards`, and parses it.

    Args:
        config: the config.
        cards: the cards of all workers, also of those that could not be built.
        workers: the workers that were built, about which the planner may have warnings.
    """
    probe = Probe(name="planner", role="planner")
    planner = _made(probe, config.planner)
    if planner is not None:
        probe.name = planner.name
        probe.call = partial(_plan, planner, cards, config.limits.plan_steps)
        probe.card, probe.warnings = planner.card, tuple(planner.warnings(workers))
        cost = config.limits.cost
        if cost is not None and (tight := tight_cost(planner, workers, config.limits, cost)):
            probe.warnings += (tight,)
    if isinstance(planner, ChatPlanner):
        probe.model = _model(planner.worker)
        probe.structured = tuple(sorted(planner.worker.constraint_kinds))
    return probe


def policy_probe(config: Config) -> Probe | None:
    """Return a probe that checks the policy; `None` if there is nothing to tell."""
    probe = Probe(name="policy", role="policy")
    policy = _made(probe, config.policy)
    probe.warnings = () if policy is None else policy.warnings
    return probe if probe.error is not None or probe.warnings else None


def journal_probe(config: Config) -> Probe | None:
    """Return a probe that opens the journal; `None` if runs are not recorded."""
    probe = Probe(name="journal", role="journal")
    journal = _made(probe, partial(config.journal, patience=_JOURNAL_SECONDS))
    if journal is None:
        return None if probe.error is None else probe
    probe.place, probe.call = str(journal.url), partial(_open_journal, journal)
    return probe


def measured_probe(config: Config) -> Probe | None:
    """Put the measured rates on the cards, and return a probe of their file; `None` if there is no file."""
    path = config.measured_path
    if path is None:
        return None
    probe = Probe(name=path.name, role="measured rates", place=str(path))
    measured = _made(probe, partial(read_measured, path))
    if measured is not None:
        probe.found = rates_told(measured)
        _made(probe, partial(_put_on_cards, config, measured))
    return probe


def _put_on_cards(config: Config, measured: MeasuredFile) -> None:
    put_on_cards(measured, [worker for name in config.worker_names for worker in config.workers(name)])


def rates_told(measured: MeasuredFile) -> str:
    """Return the workers, the kinds and the latest day of measured rates, as text."""
    kinds = measured.kinds
    if not kinds:
        return "no rates yet"
    workers = sorted({worker for entry in kinds.values() for worker in entry.rates})
    latest = max(entry.measured_on for entry in kinds.values())
    return f"{', '.join(workers)} on {', '.join(kinds)}; the latest on {latest}"


async def _open_journal(journal: SqlJournal) -> Usage:
    await journal.runs(limit=1)
    return Usage()


def hosted_probe(config: Config) -> Probe:
    """Return a probe that asks a hosted conductor for 2 + 2."""
    probe = Probe(name="hosted", role="conductor")
    conductor = _made(probe, partial(config.conductor, limits={"seconds": SECONDS}))
    if isinstance(conductor, HostedConductor):
        probe.name = probe.model = conductor.model
        probe.call = partial(_ask_hosted, conductor)
    return probe


def _made(probe: Probe, make: Callable[[], T]) -> T | None:
    """Return the part that `make` builds; on failure store the error in the probe and return `None`."""
    try:
        return make()
    except ConfigError as error:
        probe.error = str(error)
    except WorkerError as error:
        probe.error = _told(error)
    return None


async def _ask(worker: Worker) -> Usage:
    # The visible step is for workers that need the output of an earlier step.
    step_input = StepInput(QUESTION, (VisibleStep(0, QUESTION, "4"),))
    deadline = anyio.current_time() + SECONDS
    request = Request(messages=(Message("user", QUESTION),), step_input=step_input, deadline=deadline)
    return (await complete(worker, request)).usage


async def _plan(planner: Planner, cards: tuple[Card, ...], max_steps: int) -> Usage:
    query = read_query("What is 2 + 2, and who first wrote it down?")
    deadline = anyio.current_time() + SECONDS
    request = PlanRequest(query=query, cards=cards, max_steps=max_steps, deadline=deadline, stream=False)
    async with aclosing(planner.plan(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, PlanText):
                _check_plan(planner, piece, [card.name for card in cards], max_steps)
                return piece.usage
    raise PlannerError(f"planner {planner.name!r} ended without a PlanText")


def _check_plan(planner: Planner, text: PlanText, workers: Sequence[str], max_steps: int) -> None:
    """Parse the text of a planner.

    Raises:
        PlannerError: the text is not a valid plan.
    """
    try:
        parse_plan(text.text, workers=workers, max_steps=max_steps)
    except PlanError as error:
        problem = Problem(error.code, str(error))
        call = Proposal(planner=planner.name, role="plan", text=text.text, problem=problem, usage=text.usage)
        raise PlannerError(for_people(problem), code="planner_unusable", calls=(call,)) from error


async def _ask_hosted(conductor: HostedConductor) -> Usage:
    result = await conductor.run(QUESTION)
    if result.status == "failed" and result.problem is not None:
        raise WorkerFailed(result.problem.message)
    return result.usage


def _model(worker: Worker) -> str | None:
    return worker.model if isinstance(worker, ChatWorker) else None


def _told(error: PodiumError | TimeoutError) -> str:
    if isinstance(error, PodiumError):
        return "; ".join([f"{error.code}: {in_toml(str(error))}", *remedies(error)])
    return f"{WorkerTimeout.code}: no answer within {SECONDS:g} s"


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
