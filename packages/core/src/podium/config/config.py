"""A checked config, which builds a conductor and its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel

from podium.conductor import CARD, Conductor
from podium.config.added import AddedPlanner
from podium.config.endpoints import Endpoints, read_variable
from podium.config.files import read_text, why_unreadable
from podium.config.sections import (
    A2aSection,
    CalculatorSection,
    ChatPlannerSection,
    ChatSection,
    DocumentsSection,
    FixedPlannerSection,
    GatherSection,
    HostedSection,
    McpSection,
    PolicySection,
    RulePlannerSection,
    Sections,
)
from podium.config.source import Findings, Source
from podium.errors import ConfigError
from podium.execution.retry import Retry
from podium.hosted import HostedConductor
from podium.journal import SqlCache, SqlJournal
from podium.journal.cache import Cache, MemoryCache
from podium.journal.journal import Journal
from podium.plan_text.parser import MAX_CHARS
from podium.planners.chat import ChatPlanner
from podium.planners.planner import CachedPlanner, FixedPlanner, Planner
from podium.planners.rule import RulePlanner
from podium.policy import Policy
from podium.workers.calculator import Calculator
from podium.workers.documents import Documents
from podium.workers.openai.chat import ChatWorker
from podium.workers.pool import Pool
from podium.workers.rates import put_on_cards, read_measured
from podium.workers.simple import Gather
from podium.workers.worker import Card, Worker

if TYPE_CHECKING:
    from podium.mcp import McpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The differences from the conductor of a config; `None` means no difference."""

    name: str | None = None
    """The name of the conductor, which its runs record."""
    workers: Sequence[str] | None = None
    """Names of the tables `[workers.NAME]` whose workers are in the pool."""
    planner: Planner | None = None
    """Writes the plans; the judge and the fallback planner of the config are then not used."""
    accept: Worker | None = None
    """Judges each answer."""
    direct: bool | str | None = None
    """See `Conductor`."""
    journal: Journal | None = None
    """Records the runs, so that several conductors can share a journal."""


def retry_within(retry: Retry, pool: Pool) -> Retry:
    """Return the retries for a part of the workers: without fallbacks that are not in the pool."""
    fallbacks = {
        name: known
        for name, others in retry.fallbacks.items()
        if name in pool.names and (known := [other for other in others if other in pool.names])
    }
    shared = {
        label for label in retry.fallback_labels if sum(label in card.labels for card in pool.cards) > 1
    }
    return replace(retry, fallbacks=fallbacks, fallback_labels=frozenset(shared))


def policy_within(policy: Policy, pool: Pool, workers: Sequence[Worker]) -> Policy:
    """Return the policy for a part of the workers: without the pins to the other workers."""
    gone = {worker.card.name for worker in workers} - {*pool.names}
    return replace(policy, pins=[pin for pin in policy.pins if pin.worker not in gone])


_Model = TypeVar("_Model", bound=BaseModel)
_SAME = Variant()
_OF_PLACE = {"off", "path", "url", "url_env"}
"""Keys of `[journal]` that define its place."""


class Config:
    """A checked `podium.toml`, from `load_config`.

    Each worker is built once, with one concurrency limit, circuit breaker and call history for all
    conductors; workers of the same endpoint share one `Endpoint`. Building a worker or planner reads the key
    of its endpoint from the environment. Building opens no connections, except to list the tools of MCP
    servers and to read the cards of agents.
    """

    def __init__(
        self,
        sections: Sections,
        source: Source,
        added: Mapping[str, BaseModel],
        planner: AddedPlanner | None = None,
    ) -> None:
        self._sections = sections
        self._added = added
        self._planner = planner
        self._journals: dict[float | None, SqlJournal] = {}
        self._source = source
        remedy = "with the key" if sections.hosted is not None else "with the key, or remove its workers"
        self._endpoints = Endpoints(sections.endpoints, source, remedy)
        self._workers: dict[str, Sequence[Worker]] = {}
        self._pool: Pool | None = None  # whose states all conductors share
        self.path = source.path
        self.limits = sections.limits
        """The limits of a run; a hosted conductor has `[hosted] seconds` instead."""
        self.worker_names = tuple(sections.workers)
        """The names of the workers' tables, in the order of the file; empty for a hosted conductor."""
        self.chat_names = tuple(
            name for name, worker in sections.workers.items() if isinstance(worker, ChatSection)
        )
        """The names in `worker_names` that are models behind an endpoint."""
        self.is_hosted = sections.hosted is not None
        measured = sections.pool.measured
        self.measured_path = None if measured is None else self._source.near(measured)
        """The file of measured rates; `None` if the config has none."""

    def conductor(
        self,
        *,
        limits: Mapping[str, float | None] | None = None,
        journaled: bool = True,
        variant: Variant = _SAME,
    ) -> Conductor | HostedConductor:
        """Build the conductor.

        Args:
            limits: values that replace those of `[limits]`, by the names of the fields of `Limits`; `None`
                keeps the file's value. `seconds` also replaces `[hosted] seconds`.
            journaled: whether runs are recorded in the journal; runs of a hosted conductor never are.
            variant: how the conductor differs from the config; a hosted conductor ignores it.

        Raises:
            ConfigError: a named environment variable, folder or plan file does not exist, a URL or name is
                invalid, or a limit other than seconds is given for a hosted conductor.
        """
        hosted = self._sections.hosted
        given: dict[str, Any] = {key: value for key, value in (limits or {}).items() if value is not None}
        if hosted is not None:
            if wrong := ", ".join(given.keys() - {"seconds"}):
                raise ConfigError(f"a hosted conductor has only the limit seconds: leave out {wrong}")
            return self._hosted(hosted, given.get("seconds"))
        bounds = replace(self.limits, **given)
        section = self._sections.conductor
        findings = Findings()
        workers = self._all_workers(findings)
        with findings.collected(), self._source.at("policy"):
            self._sections.policy.to_policy()
        with findings.collected():
            planner = variant.planner or self.planner(variant.workers)
        with findings.collected():
            cache = self._cache()
        with findings.collected():
            journal = variant.journal or (self.journal() if journaled else None)
        findings.raise_found()
        of_tables = [worker for name in self.worker_names for worker in workers[name]]
        if self.measured_path is not None:
            with self._source.at("pool", "measured"):
                put_on_cards(read_measured(self.measured_path), of_tables)
        pool = self._pool = Pool([*of_tables, *self.planner_workers()], shares=self._pool)
        retry, is_own = self._sections.retry, variant.planner is None
        with self._source.at("retry"):
            retry.check(pool)
        policy = self._policy(self._sections.policy, pool.cards)
        if variant.workers is not None:
            pool = Pool([worker for name in variant.workers for worker in workers[name]], shares=pool)
            retry, policy = retry_within(retry, pool), policy_within(policy, pool, of_tables)
        judge = workers[section.accept][0] if is_own and section.accept is not None else None
        return Conductor(
            planner,
            pool,
            limits=bounds,
            fallback_planner=self._fallback_planner() if is_own else None,
            direct=section.direct if variant.direct is None else variant.direct,
            accept=variant.accept or judge,
            show_question=section.show_question,
            on_failure=section.on_failure,
            retry=retry,
            policy=policy,
            cache=cache,
            journal=journal,
            card=None if variant.name is None else Card(name=variant.name, description=CARD.description),
        )

    def _all_workers(self, findings: Findings) -> Mapping[str, Sequence[Worker]]:
        """Build the workers of all tables, MCP servers last, so that none is started after an error."""
        made: dict[str, Sequence[Worker]] = {}
        for name in sorted(self.worker_names, key=self.has_mcp_server):
            if not (findings and self.has_mcp_server(name)):
                with findings.collected():
                    made[name] = self.workers(name)
        return made

    def journal(self, *, patience: float | None = None) -> SqlJournal | None:
        """Return the journal, the same object each time; `None` with `off = true`.

        Args:
            patience: replaces `[journal] patience`, in seconds; `None` keeps the file's value.

        Raises:
            ConfigError: a named environment variable is not set, or the path or URL is invalid.
        """
        section = self._sections.journal
        if section.off:
            return None
        if patience in self._journals:
            return self._journals[patience]
        place = self._place()
        said = {key: value for key, value in section if value is not None and key not in _OF_PLACE}
        if patience is not None:
            said["patience"] = patience
        with self._source.at("journal"):
            made = self._journals[patience] = SqlJournal(place, **said)
        return made

    def shared_cache(self) -> SqlCache:
        """Return the cache of answers in the journal's database.

        Raises:
            ConfigError: see `journal`.
        """
        place = self._place()
        with self._source.at("journal"):
            return SqlCache(place)

    def _place(self) -> Path | str | None:
        """Return the journal's path or URL; `None` for the file in the user's state folder."""
        section = self._sections.journal
        if section.url_env is not None:
            use, remedy = "[journal] reads its URL from it", "with the URL, or remove url_env"
            return read_variable(self._source, ("journal", "url_env"), section.url_env, use, remedy)
        return section.url if section.path is None else self._source.near(section.path)

    def table(self, name: str, model: type[_Model]) -> _Model | None:
        """Return the table of another package; `None` if it is not in the file.

        Args:
            name: the table's name.
            model: the model to which the entry point in the group `podium.config` refers.

        Raises:
            TypeError: the entry point refers to another model.
        """
        table = self._added.get(name)
        if table is None or isinstance(table, model):
            return table
        raise TypeError(f"[{name}] is of {type(table).__qualname__}, not of {model.__qualname__}")

    def workers(self, name: str) -> Sequence[Worker]:
        """Return the workers of `[workers.NAME]`: one worker, or the tools and resources of an MCP server.

        Raises:
            ConfigError: see `conductor`.
            WorkerError: an MCP server did not list its tools, or an agent did not send its card.
        """
        if name not in self._workers:
            self._workers[name] = self._new_workers(name)
        return self._workers[name]

    def _new_workers(self, name: str) -> Sequence[Worker]:
        section = self._sections.workers[name]
        if isinstance(section, ChatSection):
            return (self._chat_worker(name, section),)
        if isinstance(section, McpSection):
            server = self.mcp_server(name)
            with self._source.at("workers", name):
                return server.workers_sync(tools=section.tools, resources=section.resources)
        if isinstance(section, A2aSection):
            from podium.config.endpoints import make_agent_worker  # noqa: PLC0415 - jsonschema is slow to import

            return (make_agent_worker(name, section, self._source),)
        with self._source.at("workers", name):
            match section:
                case CalculatorSection():
                    return (Calculator(name, labels=section.labels),)
                case DocumentsSection():
                    folder, said = self._source.near(section.folder), section.description
                    return (Documents(folder, name=name, description=said, labels=section.labels),)
                case GatherSection():
                    return (Gather(name, labels=section.labels),)

    def has_mcp_server(self, name: str) -> bool:
        """Return whether `[workers.NAME]` is an MCP server, whose tools are the workers."""
        return isinstance(self._sections.workers[name], McpSection)

    @property
    def connects(self) -> bool:
        """Whether building the workers opens connections, to MCP servers or remote agents."""
        return any(isinstance(each, McpSection | A2aSection) for each in self._sections.workers.values())

    def mcp_server(self, name: str) -> "McpServer":
        """Return the MCP server of `[workers.NAME]` without starting it.

        Raises:
            ConfigError: see `conductor`.
        """
        from podium.config.endpoints import make_mcp_server  # noqa: PLC0415 - jsonschema is slow to import

        section = self._sections.workers[name]
        assert isinstance(section, McpSection)
        return make_mcp_server(name, section, self._source)

    def worker(self, name: str) -> Worker:
        """Return the worker of `[workers.NAME]`.

        Raises:
            ConfigError: as for `conductor`, or the table is an MCP server with several workers.
            WorkerError: see `workers`.
        """
        made = self.workers(name)
        if len(made) != 1:
            names = ", ".join(worker.card.name for worker in made) or "none"
            told = f"[workers.{name}] is not a single worker: its MCP server has {names}"
            raise ConfigError(self._source.told(("workers", name), told))
        return made[0]

    def planner(self, workers: Sequence[str] | None = None) -> Planner:
        """Build the planner.

        Args:
            workers: names of the tables of its workers; `None` means all.

        Raises:
            ConfigError: see `conductor`.
        """
        if self._planner is not None:
            with self._source.at("planner"):
                return self._planner.build(self.path.parent, workers or self.worker_names)
        match self._sections.planner:
            case ChatPlannerSection() as section:
                planner = self._chat_planner(section)
                return CachedPlanner(planner) if section.cache else planner
            case FixedPlannerSection() as section:
                return self._fixed_planner(section)
            case RulePlannerSection():
                return RulePlanner()
            case None:
                raise ConfigError("the config has no planner: its conductor is hosted")

    def planner_workers(self) -> Sequence[Worker]:
        """Return the workers of the pool that belong to the planner and have no table in the file."""
        return () if self._planner is None else self._planner.workers()

    def policy(self) -> Policy:
        """Return the policy. It may name all workers of the file, and the model of the planner.

        Raises:
            ConfigError: the policy is invalid, names a worker or label that the file lacks, or the conductor
                is hosted.
            WorkerError: see `workers`.
        """
        if self.is_hosted:
            raise ConfigError("a hosted conductor has its own policy: the file can have none")
        return self._policy(self._sections.policy, self.parties())

    def parties(self) -> Sequence[Card]:
        """Return cards with the names and labels of all workers. Only MCP servers are started.

        Raises:
            ConfigError: see `workers`.
            WorkerError: see `workers`.
        """
        found = [worker.card for worker in self.planner_workers()]
        for name, section in self._sections.workers.items():
            if isinstance(section, McpSection):
                found += [worker.card for worker in self.workers(name)]
            else:
                with self._source.at("workers", name):
                    found.append(Card(name=name, labels=frozenset(section.labels)))
        return found

    def _policy(self, section: PolicySection, cards: Sequence[Card]) -> Policy:
        """Return a policy for these workers, which conductors with a part of them can have, too."""
        planner, others = self._sections.planner, list[Card]()
        if isinstance(planner, ChatPlannerSection) and planner.model is not None:
            with self._source.at("planner", "model"):
                others.append(Card(name=planner.model, labels=frozenset(planner.labels or ())))
        with self._source.at("policy"):
            policy = section.to_policy()
            policy.fit(cards, others)
        known = {word for card in (*cards, *others) for word in (card.name, *card.labels)}
        return replace(policy, labels={*policy.labels, *known})

    def _fallback_planner(self) -> Planner | None:
        section = self._planner or self._sections.planner
        is_named = not isinstance(section, RulePlannerSection | None) and section.fallback is not None
        return RulePlanner() if is_named else None

    def _cache(self) -> Cache | Literal["run"] | None:
        match self._sections.conductor.cache:
            case "off":
                return None
            case "run":
                return "run"
            case "memory":
                return MemoryCache()
            case "shared":
                return self.shared_cache()

    def _chat_worker(self, name: str, section: ChatSection) -> ChatWorker:
        endpoint = self._endpoints.get(section.endpoint)
        with self._source.at("workers", name):
            card = Card(
                name=name,
                description=section.description,
                price=section.price,
                context_window=section.context_window,
                parts=frozenset(section.parts),
                labels=frozenset(section.labels),
                concurrency=section.concurrency,
                free_errors=section.free_errors,
            )
            return ChatWorker(section.model, endpoint=endpoint, card=card, sampling=section.sampling)

    def _chat_planner(self, section: ChatPlannerSection) -> ChatPlanner:
        if section.worker is not None:
            worker = self.worker(section.worker)
        else:
            assert section.endpoint is not None
            assert section.model is not None
            endpoint = self._endpoints.get(section.endpoint)
            with self._source.at("planner", "model"):
                labels = frozenset(section.labels or ())
                card = Card(name=section.model, price=section.price, labels=labels)
            worker = ChatWorker(section.model, endpoint=endpoint, card=card)
        return ChatPlanner(
            worker,
            spelling=section.spelling,
            show=section.show,
            shuffle=section.shuffle,
            examples=section.examples,
            reasons=section.reasons,
            constrain=section.constrain,
            sampling=section.sampling,
        )

    def _fixed_planner(self, section: FixedPlannerSection) -> FixedPlanner:
        path = self._source.near(section.plan)
        with self._source.at("planner", "plan"):
            try:
                return FixedPlanner(read_text(path, 4 * MAX_CHARS))
            except (OSError, ValueError) as error:
                raise ConfigError(f"the plan {path} cannot be read: {why_unreadable(error)}") from error

    def _hosted(self, section: HostedSection, seconds: float | None) -> HostedConductor:
        said = {key: value for key, value in section if value is not None and key != "endpoint"}
        if seconds is not None:
            said["seconds"] = seconds
        return HostedConductor(endpoint=self._endpoints.get(section.endpoint), **said)
