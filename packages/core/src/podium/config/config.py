"""A checked config, which builds a conductor and its parts."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel

from podium.conductor import Conductor
from podium.config.section import price_of
from podium.config.sections import (
    A2aSection,
    AddedPlanner,
    ChatPlannerSection,
    ChatSection,
    CommandSection,
    DocumentsSection,
    FixedPlannerSection,
    HostedSection,
    McpSection,
    PersonSection,
    PlainSection,
    RulePlannerSection,
    Sections,
    SingleSection,
    TeamSection,
)
from podium.config.source import Findings, KeyPath, Source, read_text, why_unreadable
from podium.config.variant import Variant, policy_within, retry_within
from podium.errors import ConfigError
from podium.journal import SqlCache, SqlJournal
from podium.journal.cache import Cache, MemoryCache
from podium.plan_text.parser import MAX_CHARS
from podium.plan_text.saved import SavedPlan
from podium.planners.chat import ChatPlanner
from podium.planners.planner import CachedPlanner, FixedPlanner, Planner
from podium.planners.rule import RulePlanner
from podium.planners.turn import TurnPlanner
from podium.policy import Policy
from podium.workers.command import CommandWorker
from podium.workers.offline import Calculator, Documents
from podium.workers.openai.chat import ChatWorker
from podium.workers.openai.endpoint import Endpoint
from podium.workers.person import PersonWorker
from podium.workers.pool import Pool
from podium.workers.rates import put_on_cards, read_measured
from podium.workers.simple import Gather, Join, Vote
from podium.workers.worker import Card, Worker

if TYPE_CHECKING:
    from podium.mcp import McpServer


_Model = TypeVar("_Model", bound=BaseModel)
_SAME = Variant()
NO_PLANS: Mapping[str, SavedPlan] = MappingProxyType({})
NO_TEAMS: "Mapping[str, Config]" = MappingProxyType({})
ModelSection = ChatSection | ChatPlannerSection | HostedSection
_PLAIN = {"calculator": Calculator, "gather": Gather, "join": Join, "vote": Vote}
_ALL_PARTS = ("image_url", "input_audio", "file")
_OF_PLACE = {"off", "path", "url", "url_env"}
"""Keys of `[journal]` that define its place."""
_OF_CARD = {"description", "context_window", "parts", "labels", "concurrency", "free_errors"}
_OF_CARD |= {"memory", "most_cost", "accept"}
"""Keys of a worker that its card has."""
_OF_COMMAND = {"preset", "command", "worktree", "acts"}
_OF_CHAT_PLANNER = {"spelling", "show", "examples", "reasons", "workflows", "constrain"}


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
        plans: Mapping[str, SavedPlan] = NO_PLANS,
        teams: "Mapping[str, Config]" = NO_TEAMS,
    ) -> None:
        self._sections = sections
        self._teams = teams
        self._source = source
        planner: object = sections.planner
        self._planner = planner if isinstance(planner, AddedPlanner) else None
        self._journal: SqlJournal | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._workers: dict[str, Sequence[Worker]] = {}
        self._pool: Pool | None = None  # whose states all conductors share
        self.path = source.path
        self.plans = plans
        """The saved plans, by name."""
        self.limits = sections.limits
        """The limits of a run; the time of a hosted conductor is `[hosted] seconds`."""
        if sections.hosted is not None:
            most = sections.hosted.seconds
            self.limits = replace(self.limits, seconds=most, step_seconds=most, attempt_seconds=most)
        self.worker_names = tuple(sections.workers)
        """The names of the workers' tables, in the order of the file; empty for a hosted conductor."""
        self.chat_names = tuple(
            n for n, worker in sections.workers.items() if isinstance(worker, ChatSection)
        )
        """The names in `worker_names` that are models behind an endpoint."""
        self.is_hosted = sections.hosted is not None
        self.show_question = sections.conductor.show_question
        """Whether workers see the question besides their subtask."""
        measured = sections.pool.measured
        self.measured_path = None if measured is None else self._source.near(measured)
        """The file of measured rates; `None` if the config has none."""

    def conductor(
        self,
        *,
        limits: Mapping[str, float | None] | None = None,
        journaled: bool = True,
        variant: Variant = _SAME,
    ) -> Conductor:
        """Build the conductor.

        Args:
            limits: values that replace those of `[limits]`, by the names of the fields of `Limits`; `None`
                keeps the file's value.
            journaled: whether runs are recorded in the journal.
            variant: how the conductor differs from the config.

        Raises:
            ConfigError: a named environment variable, folder or plan file does not exist, or a URL or name is
                invalid.
        """
        given: dict[str, Any] = {key: value for key, value in (limits or {}).items() if value is not None}
        bounds, section, planner = replace(self.limits, **given), self._sections.conductor, None
        findings = Findings()
        workers = self._all_workers(findings)
        with findings.collected(), self._source.at("policy"):
            self._sections.policy.to_policy()
        if not (variant.verbatim or self.is_hosted):
            with findings.collected():
                planner = FixedPlanner(variant.plan) if variant.plan else self.planner(variant.workers)
        with findings.collected():
            cache = self._cache()
        with findings.collected():
            journal = variant.journal or (self.journal() if journaled else None)
        findings.raise_found()
        of_tables = [worker for name in self.worker_names or workers for worker in workers[name]]
        if self.measured_path is not None:
            with self._source.at("pool", "measured"):
                put_on_cards(read_measured(self.measured_path), of_tables)
        pool = self._pool = Pool([*of_tables, *(added := self.planner_workers())], shares=self._pool)
        retry = self._sections.retry
        with self._source.at("retry"):
            retry.check(pool)
        policy = self._policy(pool.cards)
        policy = policy if variant.approve is None else replace(policy, approve=variant.approve)
        if variant.workers is not None:
            chosen = [worker for name in variant.workers for worker in workers[name]]
            pool = Pool([*chosen, *added], shares=pool)
            retry, policy = retry_within(retry, pool), policy_within(policy, pool, of_tables)
        options: dict[str, Any] = {"limits": bounds, "retry": retry, "policy": policy, "cache": cache}
        options |= {"journal": journal, "card": variant.card}
        if planner is None:
            return Conductor.of(pool, **options)
        judge = None if section.accept is None else workers[section.accept][0]
        return Conductor(
            planner,
            pool,
            fallback_planner=self._fallback_planner(),
            direct=section.direct if variant.direct is None else variant.direct,
            accept=variant.accept or judge,
            show_question=section.show_question,
            warm_prefix=section.warm_prefix,
            on_failure=section.on_failure,
            plans=self.plans.values(),
            **options,
        )

    def _all_workers(self, findings: Findings) -> Mapping[str, Sequence[Worker]]:
        """Build the workers of all tables, MCP servers last, so that none is started after an error."""
        made: dict[str, Sequence[Worker]] = {}
        if (hosted := self._sections.hosted) is not None:
            with findings.collected():
                at = ("hosted", "model")
                made[hosted.model] = [self._chat_worker(hosted, at, hosted.model, parts=_ALL_PARTS)]
        for name in sorted(self.worker_names, key=self.has_mcp_server):
            if not (findings.errors and self.has_mcp_server(name)):
                with findings.collected():
                    made[name] = self.workers(name)
        return made

    def journal(self) -> SqlJournal | None:
        """Return the journal, the same object each time; `None` with `off = true`.

        Raises:
            ConfigError: a named environment variable is not set, or the path or URL is invalid.
        """
        section = self._sections.journal
        if self._journal is None and not section.off:
            place = self._place()
            said = {key: value for key, value in section if value is not None and key not in _OF_PLACE}
            with self._source.at("journal"):
                self._journal = SqlJournal(place, **said)
        return self._journal

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
            return self._variable(("journal", "url_env"), section.url_env, use, remedy)
        return section.url if section.path is None else self._source.near(section.path)

    def table(self, name: str, model: type[_Model]) -> _Model | None:
        """Return the table of another package; `None` if it is not in the file.

        Args:
            name: the table's name.
            model: the model to which the entry point in the group `podium.config` refers.

        Raises:
            TypeError: the entry point refers to another model.
        """
        table = dict(self._sections).get(name)
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
            section = self._sections.workers[name]
            if isinstance(section, McpSection):
                server = self.mcp_server(name)
                with self._source.at("workers", name):
                    made = server.workers_sync(tools=section.tools, resources=section.resources)
                self._workers[name] = made
            elif isinstance(section, TeamSection):
                card = Card(name=name, description=section.description, labels=frozenset(section.labels))
                team = self._teams[name].conductor(journaled=False, variant=Variant(card=card))
                self._workers[name] = (team,)
            else:
                self._workers[name] = (self._new_worker(name, section),)
        return self._workers[name]

    def _new_worker(self, name: str, section: SingleSection) -> Worker:
        facts = {key: value for key, value in section if key in _OF_CARD}
        if isinstance(section, ChatSection):
            return self._chat_worker(section, ("workers", name), name, **facts)
        headers = self._headers(name, section) if isinstance(section, A2aSection) else {}
        env = self._env(name, section) if isinstance(section, CommandSection) else {}
        with self._source.at("workers", name):
            match section:
                case CommandSection():
                    facts |= {"labels": frozenset(section.labels), "price": price_of(section.price)}
                    card, where = Card(name=name, **facts), self._source.near(section.folder)
                    settings = {key: value for key, value in section if key in _OF_COMMAND}
                    return CommandWorker(folder=where, card=card, env=env, **settings)
                case A2aSection():
                    from podium.a2a import RemoteAgent  # noqa: PLC0415 - jsonschema is slow to import

                    agent = RemoteAgent(section.url, headers=headers, seconds=section.seconds)
                    return agent.worker_sync(
                        acts=section.acts,
                        name=name,
                        description=section.description,
                        price=price_of(section.price),
                        labels=section.labels,
                    )
                case DocumentsSection():
                    folder, said = self._source.near(section.folder), section.description
                    return Documents(folder, name=name, description=said, labels=section.labels)
                case PlainSection():
                    return _PLAIN[section.type](name, labels=section.labels)
                case PersonSection():
                    card = Card(name=name, description=section.description, labels=frozenset(section.labels))
                    return PersonWorker(
                        card, choices=section.choices, deadline=section.deadline, otherwise=section.otherwise
                    )

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
        from podium.mcp import McpServer, Stdio, StreamableHttp  # noqa: PLC0415 - jsonschema is slow to import

        section = self._sections.workers[name]
        assert isinstance(section, McpSection)
        env, headers = self._env(name, section), self._headers(name, section)
        with self._source.at("workers", name):
            transport: Stdio | StreamableHttp
            if section.url is None:
                folder = self._source.near(section.folder or "")
                transport = Stdio(section.command or "", section.args, env=env, folder=folder)
            else:
                transport = StreamableHttp(section.url, headers)
            price, labels = price_of(section.price), section.labels
            return McpServer(name, transport, seconds=section.seconds, labels=labels, price=price)

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
                if section.plan in self.plans:
                    return FixedPlanner(self.plans[section.plan])
                path = self._source.near(section.plan)
                with self._source.at("planner", "plan"):
                    try:
                        return FixedPlanner(read_text(path, 4 * MAX_CHARS))
                    except (OSError, ValueError) as error:
                        told = f"the plan {path} cannot be read: {why_unreadable(error)}"
                        raise ConfigError(told) from error
            case RulePlannerSection():
                return RulePlanner()
            case None:
                raise ConfigError("the config has no planner: its conductor is hosted")

    def planner_workers(self) -> Sequence[Worker]:
        """Return the workers of the pool that belong to the planner and have no table in the file.

        Raises:
            ConfigError: a file that the table names does not tell which they are.
        """
        if self._planner is None:
            return ()
        with self._source.at("planner"):
            return self._planner.workers(self.path.parent)

    def policy(self) -> Policy:
        """Return the policy. It may name all workers of the file, and the model of the planner.

        Raises:
            ConfigError: the policy is invalid, or names a worker or label that the file lacks.
            WorkerError: see `workers`.
        """
        return self._policy(self.parties())

    def parties(self) -> Sequence[Card]:
        """Return cards with the names and labels of all workers. Only MCP servers are started.

        Raises:
            ConfigError: see `workers`.
            WorkerError: see `workers`.
        """
        hosted = self._sections.hosted
        found = [worker.card for worker in self.planner_workers()]
        found += [] if hosted is None else [Card(name=hosted.model)]
        for name, section in self._sections.workers.items():
            if isinstance(section, McpSection):
                found += [worker.card for worker in self.workers(name)]
            else:
                with self._source.at("workers", name):
                    found.append(Card(name=name, labels=frozenset(section.labels)))
        return found

    def _policy(self, cards: Sequence[Card]) -> Policy:
        """Return a policy for these workers, which conductors with a part of them can have, too."""
        planner, others = self._sections.planner, list[Card]()
        if isinstance(planner, ChatPlannerSection) and planner.model is not None:
            with self._source.at("planner", "model"):
                others.append(Card(name=planner.model, labels=frozenset(planner.labels or ())))
        with self._source.at("policy"):
            policy = self._sections.policy.to_policy()
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

    def _chat_worker(self, section: ModelSection, at: Sequence[str], name: str, **facts: Any) -> ChatWorker:
        """Return a model behind an endpoint, with the facts of its card."""
        assert section.endpoint is not None
        assert section.model is not None
        endpoint = self._endpoint(section.endpoint)
        with self._source.at(*at):
            facts |= {key: frozenset(facts[key]) for key in ("labels", "parts") if key in facts}
            card = Card(name=name, price=price_of(section.price), **facts)
            if isinstance(section, HostedSection):
                facts = {"sampling": section.sampling(), "api": section.api}
            else:
                facts = {"sampling": section.sampling.sampling()} if isinstance(section, ChatSection) else {}
            return ChatWorker(section.model, endpoint=endpoint, card=card, **facts)

    def _chat_planner(self, section: ChatPlannerSection) -> ChatPlanner:
        if section.worker is not None:
            worker = self.worker(section.worker)
        else:
            at = ("planner", "model")
            worker = self._chat_worker(section, at, section.model or "", labels=section.labels or ())
        if section.turns is not None:
            sampling = section.sampling.sampling()
            return TurnPlanner(worker, rounds=section.turns, native=section.native, sampling=sampling)
        said = {key: value for key, value in section if key in _OF_CHAT_PLANNER}
        return ChatPlanner(worker, **said | {"sampling": section.sampling.sampling()})

    def _endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of `[endpoints.NAME]`, the same object each time."""
        if name not in self._endpoints:
            section, key = self._sections.endpoints[name], None
            if section.key_env is not None:
                where, use = ("endpoints", name, "key_env"), f"[endpoints.{name}] reads its key from it"
                remedy = "with the key" if self.is_hosted else "with the key, or remove its workers"
                key = self._variable(where, section.key_env, use, remedy)
            url, provider, timeouts = section.base_url, section.provider, section.timeouts
            with self._source.at("endpoints", name):
                self._endpoints[name] = Endpoint(url, api_key=key, provider=provider, timeouts=timeouts)
        return self._endpoints[name]

    def _headers(self, name: str, section: McpSection | A2aSection) -> dict[str, str]:
        return {**section.headers, **self._variables(name, "headers_env", section.headers_env)}

    def _env(self, name: str, section: McpSection | CommandSection) -> dict[str, str]:
        named = {variable: variable for variable in section.env_from}
        return {**section.env, **self._variables(name, "env_from", named)}

    def _variables(self, name: str, key: str, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the values of the environment variables that a key of a worker names, by the same keys."""
        where, use = ("workers", name, key), f"[workers.{name}] needs it"
        remedy = "with the value, or remove the worker"
        return {each: self._variable(where, name, use, remedy) for each, name in variables.items()}

    def _variable(self, where: KeyPath, name: str, use: str, remedy: str) -> str:
        """Return the value of an environment variable that the key `where` names."""
        value = os.environ.get(name, "").strip()
        if not value:
            unset = f"the environment variable {name} is not set, and {use}"
            raise ConfigError(self._source.told(where, f"{unset}: run `export {name}=...` {remedy}"))
        return value
