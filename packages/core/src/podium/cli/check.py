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
from podium.cli.drawing import plain_table
from podium.cli.screen import NO_ANSWER, Screen, remedies, reporting
from podium.config import Config, find_config, load_config
from podium.config.source import in_toml
from podium.errors import (
    ConfigError,
    PlanError,
    PlanInvalid,
    PlannerError,
    PodiumError,
    WorkerError,
    WorkerFailed,
    WorkerTimeout,
)
from podium.plan_text.parser import PlanReader
from podium.plan_text.saved import written_out
from podium.planners.chat import ChatPlanner
from podium.planners.planner import Planner, PlanRequest, PlanText
from podium.prompts.prompt import check_names
from podium.secrets import Boundary
from podium.types.messages import Message, read_query
from podium.types.outcome import Problem, Proposal, for_people
from podium.types.plan import Plan
from podium.usage import Usage
from podium.workers import FREE
from podium.workers.command import CommandWorker
from podium.workers.openai.chat import ChatWorker
from podium.workers.person import PersonWorker
from podium.workers.rates import MeasuredFile, put_on_cards, read_measured
from podium.workers.worker import Card, Price, Request, StepInput, VisibleStep, Worker, complete

if TYPE_CHECKING:
    from podium.mcp.workers import Offer


T = TypeVar("T")

QUESTION = "What is 2 + 2? Answer with the number."
SECONDS = 30.0
"""Timeout of a test call, in seconds; reasoning models are slow."""
_GRACE = 1.0
"""Seconds after the timeout in which a worker can still report its own timeout error."""


def check(*, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Call each worker and the planner once.

    The command shows what works. It also opens the journal. MCP servers list their tools and resources; no
    tool is called.

    Prices and context windows of models come from the config, or from genai-prices for known
    providers.
    """
    with reporting() as screen:
        loaded = load_config(find_config(config))
        probes = [_hosted(loaded)] if loaded.is_hosted else _parts(loaded)
        anyio.run(_call_all, probes)
        is_good = all(probe.error is None for probe in probes)
        if as_json:
            screen.result_json({"ok": is_good, "parts": [probe.to_json() for probe in probes]})
        else:
            screen.draw(_table(screen, probes))
            lines = [line for probe in probes for line in probe.lines()]
            for line in sorted(lines, key=lambda line: "!✗".find(line[0])):
                screen.result(line)
        if not is_good:
            raise typer.Exit(NO_ANSWER)


@dataclass(slots=True, kw_only=True)
class Probe:
    """A part of a config, and the result of its test call."""

    name: str
    role: Literal[
        "worker", "planner", "conductor", "mcp server", "plan", "policy", "journal", "measured rates"
    ]
    model: str | None = None
    """`None` if the part is not a model."""
    card: Card | None = None
    structured: tuple[str, ...] = ()
    """The kinds of structured output that its server supports: `json`, `grammar`."""
    call: Callable[[], Awaitable[Usage | None]] | None = None
    """Calls the part; `None` if the part could not be built, or needs no call."""
    seconds: float | None = None
    """Duration of the test call; `None` without a call."""
    usage: Usage = Usage()
    error: str | None = None
    """The error; `None` if the part works."""
    place: str = ""
    """The file or URL of the journal, or the file of measured rates; empty for other parts."""
    told: str = ""
    """What the place has; empty for other parts."""
    warnings: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    """The cards of the part's workers, for the planner."""
    offers: "Sequence[Offer]" = ()
    """All tools and resources of an MCP server, whether the config uses them or not."""

    def made(self, make: Callable[[], T]) -> T | None:
        """Return the part that `make` builds; on failure keep the error and return `None`."""
        try:
            return make()
        except ConfigError as error:
            self.error = str(error)
        except WorkerError as error:
            self.error = _told(error)
        return None

    async def run(self) -> None:
        """Call the part, if it could be built, and keep the result."""
        if self.call is None:
            return
        began = anyio.current_time()
        try:
            who = f"{self.role} {self.name!r}"
            with anyio.fail_after(SECONDS + _GRACE), Boundary(who, WorkerFailed, is_library=True):
                self.usage = await self.call() or Usage()
        except (PodiumError, TimeoutError) as error:
            self.error = _told(error)
        self.seconds = anyio.current_time() - began

    def is_model(self, worker: Worker) -> None:
        """Keep the model behind a worker and the structured output that it supports."""
        self.model = worker.model if isinstance(worker, ChatWorker) else None
        self.structured = tuple(sorted(worker.constraint_kinds))

    def to_json(self) -> dict[str, Any]:
        """Return the probe as JSON data."""
        card = self.card or Card(name=self.name)
        used = {each.name for each in self.cards}
        workers = [f"{self.name}.{offer.name}" for offer in self.offers]
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
                {**asdict(offer), "worker": name if name in used else None}
                for offer, name in zip(self.offers, workers, strict=True)
            ],
            "place": self.place or None,
            "warnings": list(self.warnings),
            "error": self.error,
        }

    def lines(self) -> Iterator[str]:
        """Yield what is known of a part: its place, its price and limits, its tools; then its warnings."""
        title = self.name if self.name == self.role else f"{self.role} {self.name}"
        if self.told:
            yield f"{self.role}: {self.told}"
        if self.card is not None and (self.model is not None or self.card.price != FREE):
            window, structured = window_told(self.card), ", ".join(self.structured) or "no"
            known = f"context window {window}; structured output: {structured}"
            yield f"{self.role} {self.name}: price per million tokens: {price_told(self.card)}; {known}"
        used = {each.name for each in self.cards}
        for offer in self.offers:
            name, acts = f"{self.name}.{offer.name}", "acts; " if offer.acts else ""
            yield f"{name} ({offer.kind}): {'' if name in used else 'not used; '}{acts}{offer.description}"
        yield from (f"! {title}: {warning}" for warning in self.warnings)
        if self.error is not None:  # a narrow terminal would break up a column
            yield f"✗ {title}: {' '.join(self.error.split())}"


def price_told(card: Card) -> str:
    """Format a price with its source."""
    price = card.price
    if price is None:
        return "unknown" if card.most_cost is None else f"unknown, up to ${card.most_cost:g} a call"
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


def _parts(config: Config) -> list[Probe]:
    measured = _measured(config)  # first, because the planner reads the rates on the cards
    probes = [_worker(config, name) for name in config.worker_names]
    built = [worker for probe in probes if probe.error is None for worker in config.workers(probe.name)]
    planner = Probe(name="planner", role="planner")
    added = planner.made(config.planner_workers) or ()
    cards = [card for probe in probes for card in probe.cards or (Card(name=probe.name),)]
    cards.extend(worker.card for worker in added)
    _ask(planner, config, tuple(cards), [*built, *added])
    policy = _policy(config) if all(probe.error is None for probe in probes) else None
    plans = _saved_plans(config, [card.name for card in cards])
    others = (probe for probe in (policy, measured, _journal(config)) if probe is not None)
    return [*probes, planner, *plans, *others]


async def _call_all(probes: Sequence[Probe]) -> None:
    async with anyio.create_task_group() as calls:
        for probe in probes:
            calls.start_soon(probe.run)


def _worker(config: Config, name: str) -> Probe:
    """Return a probe that asks a worker for 2 + 2, or an MCP server for its tools and resources."""
    if config.has_mcp_server(name):
        return _mcp_server(config, name)
    probe = Probe(name=name, role="worker")
    worker = probe.made(partial(config.worker, name))
    if worker is not None:
        probe.card, probe.cards = worker.card, (worker.card,)
        probe.is_model(worker)
        if isinstance(worker, PersonWorker) or (isinstance(worker, CommandWorker) and worker.acts):
            probe.warnings += ("it was not called, because a call acts or asks a person",)
        else:
            probe.call = partial(_ask_worker, probe, worker)
    return probe


def _saved_plans(config: Config, workers: Sequence[str]) -> list[Probe]:
    """Return a probe for each saved plan, with the error of one that no run could carry out."""
    probes = [Probe(name=name, role="plan") for name in config.plans]
    for probe in probes:
        try:
            made = Plan((config.plans[probe.name].within({}, workers),))
            check_names(written_out(made, config.plans, workers, depth=config.limits.depth).steps, ())
        except PlanInvalid as error:
            probe.error = str(error)
    return probes


async def _ask_worker(probe: Probe, worker: Worker) -> Usage:
    # The visible step is for workers that need the output of an earlier step.
    step_input = StepInput(QUESTION, (VisibleStep(0, QUESTION, "4"),))
    deadline = anyio.current_time() + SECONDS
    request = Request(messages=(Message("user", QUESTION),), step_input=step_input, deadline=deadline)
    usage = (await complete(worker, request)).usage
    if isinstance(worker, ChatWorker) and worker.acts and not worker.endpoint.provider.acts:
        probe.warnings += ('its server is a Podium, and it acts: write provider = "podium" for its endpoint',)
    return usage


def _mcp_server(config: Config, name: str) -> Probe:
    """Return a probe that lists the offers of an MCP server and calls no tool."""
    probe = Probe(name=name, role="mcp server")
    server = probe.made(partial(config.mcp_server, name))
    workers = None if server is None else probe.made(partial(config.workers, name))
    if server is not None and workers is not None:
        probe.cards = tuple(worker.card for worker in workers)

        async def list_offers() -> None:
            probe.offers = await server.offers()

        probe.call = list_offers
    return probe


def _ask(probe: Probe, config: Config, cards: tuple[Card, ...], workers: Sequence[Worker]) -> None:
    """Let the probe ask the planner for a plan with the workers of `cards`, and parse it."""
    planner = probe.made(config.planner)
    if planner is not None:
        probe.name, probe.card = planner.name, planner.card
        found = probe.made(lambda: tuple(planner.warnings(workers)))
        if found is not None:
            probe.call = partial(_ask_planner, planner, cards, config)
            probe.warnings = found
    if isinstance(planner, ChatPlanner):
        probe.is_model(planner.worker)


async def _ask_planner(planner: Planner, cards: tuple[Card, ...], config: Config) -> Usage:
    request = PlanRequest(
        query=read_query("What is 2 + 2, and who first wrote it down?"),
        cards=cards,
        max_steps=config.limits.plan_steps,
        shows_question=config.show_question,
        deadline=anyio.current_time() + SECONDS,
        stream=False,
    )
    async with aclosing(planner.plan(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, PlanText):
                _check_plan(planner, request, piece)
                return piece.usage
    raise PlannerError(f"planner {planner.name!r} ended without a PlanText")


def _check_plan(planner: Planner, request: PlanRequest, text: PlanText) -> None:
    """Parse the text of a planner, or raise `PlannerError`."""
    reader = PlanReader(workers=[card.name for card in request.cards], max_steps=request.max_steps)
    try:
        planner.read(request, text.text, reader)
    except PlanError as error:
        problem = Problem(error.code, str(error))
        call = Proposal(planner=planner.name, role="plan", text=text.text, problem=problem, usage=text.usage)
        raise PlannerError(for_people(problem), code="planner_unusable", calls=(call,)) from error


def _policy(config: Config) -> Probe | None:
    """Return a probe of the policy; `None` if there is nothing to tell."""
    probe = Probe(name="policy", role="policy")
    policy = probe.made(config.policy)
    probe.warnings = () if policy is None else policy.warnings
    return probe if probe.error is not None or probe.warnings else None


def _journal(config: Config) -> Probe | None:
    """Return a probe that opens the journal; `None` if runs are not recorded."""
    probe = Probe(name="journal", role="journal")
    journal = probe.made(config.journal)
    if journal is None:
        return None if probe.error is None else probe
    probe.place, probe.told = str(journal.url), f"runs are recorded in {journal.url}"
    probe.call = journal.probe
    return probe


def _measured(config: Config) -> Probe | None:
    """Put the measured rates on the cards, and return a probe of their file; `None` if there is no file."""
    path = config.measured_path
    if path is None:
        return None
    probe = Probe(name=path.name, role="measured rates", place=str(path))
    measured = probe.made(partial(read_measured, path))
    if measured is not None:
        probe.told = f"{path} has {_rates_told(measured)}"
        workers = (config.workers(name) for name in config.worker_names)
        probe.made(lambda: put_on_cards(measured, [worker for each in workers for worker in each]))
    return probe


def _rates_told(measured: MeasuredFile) -> str:
    """Return the workers, the kinds and the latest day of measured rates, as text."""
    kinds = measured.kinds
    if not kinds:
        return "no rates yet"
    workers = sorted({worker for entry in kinds.values() for worker in entry.rates})
    latest = max(entry.measured_on for entry in kinds.values())
    return f"rates of {', '.join(workers)} on {', '.join(kinds)}; the latest on {latest}"


def _hosted(config: Config) -> Probe:
    """Return a probe that asks a hosted conductor for 2 + 2."""
    probe = Probe(name="hosted", role="conductor")
    conductor = probe.made(partial(config.conductor, journaled=False))
    if conductor is not None:
        (worker,) = conductor.pool
        probe.name, probe.call = worker.card.name, partial(_ask_worker, probe, worker)
        probe.is_model(worker)
    return probe


def _told(error: PodiumError | TimeoutError) -> str:
    if isinstance(error, PodiumError):
        return "; ".join([f"{error.code}: {in_toml(str(error))}", *remedies(error)])
    return f"{WorkerTimeout.code}: no answer within {SECONDS:g} s"


def _table(screen: Screen, probes: Sequence[Probe]) -> Table:
    amounts = (Column(head, justify="right") for head in ("latency", "tokens"))
    table = plain_table("", "part", "name", "model", *amounts)
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
