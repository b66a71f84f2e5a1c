"""A checked config, and the parts of a conductor it describes.

The only place of the config that reads the environment and makes things. What goes wrong
is told with the line it was written on.
"""

import os
from dataclasses import replace
from pathlib import Path

from podium.conductor import Conductor
from podium.config.sections import (
    CalculatorSection,
    ChatPlannerSection,
    ChatSection,
    DocumentsSection,
    FixedPlannerSection,
    GatherSection,
    HostedSection,
    RulePlannerSection,
    Sections,
)
from podium.config.source import Source
from podium.errors import ConfigError
from podium.files import read_text
from podium.hosted import HostedConductor
from podium.parse import MAX_CHARS
from podium.planners.cached import CachedPlanner
from podium.planners.chat import ChatPlanner
from podium.planners.fixed import FixedPlanner
from podium.planners.planner import Planner
from podium.planners.rule import RulePlanner
from podium.workers.calculator import Calculator
from podium.workers.chat import ChatWorker
from podium.workers.documents import Documents
from podium.workers.endpoint import Endpoint
from podium.workers.gather import Gather
from podium.workers.worker import Card, Worker

_SHORTEST_SECRET = 8
"""Shorter values are no secrets, and would blot out plain words."""


class Config:
    """What a `podium.toml` says, checked; made by `load_config`.

    Workers of one endpoint share it. Making a part reads the key of its endpoint from the
    environment, and opens nothing.
    """

    def __init__(self, sections: Sections, source: Source) -> None:
        self._sections = sections
        self._source = source
        self._endpoints: dict[str, Endpoint] = {}
        self.path = source.path
        self.limits = sections.limits
        """What a run may spend, as the file says; a hosted conductor has `[hosted] seconds` instead."""
        self.worker_names = tuple(sections.workers)
        """As the tables are called, in the file's order; none for a hosted conductor."""
        self.is_hosted = sections.hosted is not None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of all environment variables that hold keys; never to be shown."""
        names = (section.key_env for section in self._sections.endpoints.values())
        values = (os.environ.get(name, "").strip() for name in names if name is not None)
        return tuple(value for value in values if len(value) >= _SHORTEST_SECRET)

    def conductor(
        self, *, steps: int | None = None, rounds: int | None = None, seconds: float | None = None
    ) -> Conductor | HostedConductor:
        """Make the conductor.

        Args:
            steps: in place of `[limits] steps`; `None` leaves it to the file, as below.
            rounds: in place of `[limits] rounds`.
            seconds: in place of `[limits] seconds`, or of `[hosted] seconds`.

        Raises:
            ConfigError: an environment variable, folder or plan file that is named is not
                there, a URL or name is none, or a hosted conductor is given steps or rounds.
        """
        hosted = self._sections.hosted
        if hosted is not None:
            if steps is not None or rounds is not None:
                raise ConfigError("a hosted conductor takes no steps or rounds, only seconds: leave them out")
            return self._hosted(hosted, seconds)
        limits = replace(
            self.limits,
            steps=self.limits.steps if steps is None else steps,
            rounds=self.limits.rounds if rounds is None else rounds,
            seconds=self.limits.seconds if seconds is None else seconds,
        )
        section = self._sections.conductor
        workers = {name: self.worker(name) for name in self.worker_names}
        return Conductor(
            self.planner(),
            list(workers.values()),
            limits=limits,
            strict=section.strict,
            direct=section.direct,
            accept=None if section.accept is None else workers[section.accept],
            show_question=section.show_question,
        )

    def worker(self, name: str) -> Worker:
        """Make the worker of `[workers.NAME]`.

        Raises:
            ConfigError: as for `conductor`.
        """
        section = self._sections.workers[name]
        if isinstance(section, ChatSection):
            return self._chat_worker(name, section)
        with self._source.at("workers", name):
            match section:
                case CalculatorSection():
                    return Calculator(name)
                case DocumentsSection():
                    folder = self._near(section.folder)
                    return Documents(folder, name=name, description=section.description)
                case GatherSection():
                    return Gather(name)

    def planner(self) -> Planner:
        """Make the planner.

        Raises:
            ConfigError: as for `conductor`.
        """
        match self._sections.planner:
            case ChatPlannerSection() as section:
                planner = self._chat_planner(section)
                return CachedPlanner(planner) if section.cache else planner
            case FixedPlannerSection() as section:
                return self._fixed_planner(section)
            case RulePlannerSection():
                return RulePlanner()
            case None:
                raise ConfigError("a hosted conductor has no planner of its own here")

    def _chat_worker(self, name: str, section: ChatSection) -> ChatWorker:
        endpoint = self._endpoint(section.endpoint)
        with self._source.at("workers", name):
            card = Card(
                name=name,
                description=section.description,
                price=section.price,
                context_window=section.context_window,
                parts=frozenset(section.parts),
                labels=frozenset(section.labels),
                concurrency=section.concurrency,
            )
            return ChatWorker(section.model, endpoint=endpoint, card=card, sampling=section.sampling)

    def _chat_planner(self, section: ChatPlannerSection) -> ChatPlanner:
        if section.worker is not None:
            worker = self.worker(section.worker)
        else:
            assert section.endpoint is not None
            assert section.model is not None
            endpoint = self._endpoint(section.endpoint)
            with self._source.at("planner", "model"):
                card = Card(name=section.model, price=section.price)
            worker = ChatWorker(section.model, endpoint=endpoint, card=card)
        return ChatPlanner(
            worker,
            spelling=section.spelling,
            show=section.show,
            shuffle=section.shuffle,
            constrain=section.constrain,
            sampling=section.sampling,
        )

    def _fixed_planner(self, section: FixedPlannerSection) -> FixedPlanner:
        path = self._near(section.plan)
        with self._source.at("planner", "plan"):
            try:
                return FixedPlanner(read_text(path, 4 * MAX_CHARS))
            except (OSError, ValueError) as error:
                raise ConfigError(f"the plan {path} cannot be read: {error}") from error

    def _hosted(self, section: HostedSection, seconds: float | None) -> HostedConductor:
        said = {key: value for key, value in section if value is not None and key != "endpoint"}
        if seconds is not None:
            said["seconds"] = seconds
        return HostedConductor(endpoint=self._endpoint(section.endpoint), **said)

    def _endpoint(self, name: str) -> Endpoint:
        """Return the endpoint, made once."""
        if name not in self._endpoints:
            section = self._sections.endpoints[name]
            key = None if section.key_env is None else self._key(name, section.key_env)
            with self._source.at("endpoints", name):
                self._endpoints[name] = Endpoint(
                    section.base_url,
                    api_key=key,
                    provider=section.provider,
                    timeouts=section.timeouts,
                )
        return self._endpoints[name]

    def _key(self, endpoint: str, variable: str) -> str:
        key = os.environ.get(variable, "").strip()
        if not key:
            message = (
                f"the environment variable {variable} is not set, and [endpoints.{endpoint}] takes its key "
                f"from it: run `export {variable}=...` with the key, or take its workers out"
            )
            raise ConfigError(self._source.told(("endpoints", endpoint, "key_env"), message))
        return key

    def _near(self, path: str) -> Path:
        """Return a path of the file, which starts where the file is."""
        return self.path.parent / Path(path).expanduser()
