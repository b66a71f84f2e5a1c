"""The models of the server: conductors and workers of a `podium.toml`, by name, and their lists."""

import json
import shutil
import tomllib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import time
from typing import Any, get_args
from urllib.parse import parse_qs

from podium.budget import Limits
from podium.conductor import CARD, Conductor
from podium.config import Config, Variant, load_config
from podium.errors import ConfigError, WorkerActs
from podium.journal import Journal
from podium.plan_text import SavedPlan
from podium.workers import Card
from podium_server.errors import ServerError
from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.settings import Effort, EffortSection, ModelSection, ModelsTable, Preset, Show

_DEMO = Path(__file__).parent / "demo"


@contextmanager
def demo_config() -> Iterator[Config]:
    """Yield the config of the offline demo.

    Its folder, with its journal and API keys, is a temporary folder, which the end of the block deletes.
    """
    with TemporaryDirectory(prefix="podium-demo-", ignore_cleanup_errors=True) as folder:
        shutil.copytree(_DEMO, folder, dirs_exist_ok=True)
        yield load_config(Path(folder) / "podium.toml")


_EFFORTS: tuple[Effort, ...] = get_args(Effort)


class ModelUnknown(ServerError):
    """The server has no model with this name."""

    code = "model_not_found"
    status = 404


class ModelActs(ServerError):
    """The model may act, and the client has said that its request must not act."""

    code = WorkerActs.code
    status = 428


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model that clients can name."""

    name: str
    version: str
    """Part of the id that responses have."""
    conductor: Conductor
    is_worker: bool = False
    """Whether a worker answers as itself: it is sent each conversation unchanged, without a plan."""
    aliases: tuple[str, ...] = ()
    """Further names; `*` stands for any characters."""
    description: str = ""
    show: Show = "steps"
    efforts: Mapping[Effort, EffortSection] = field(default_factory=dict)
    codex_instructions: str | None = None
    """Instructions that Codex gives to the model; `None` if the model is not in the list for Codex."""
    parameters: Mapping[str, Any] | None = None
    """The JSON schema of the arguments of a saved plan; `None` for other models."""
    created: int
    """When the server started, in seconds of Unix time."""

    @property
    def versioned_id(self) -> str:
        """The id of the model with its version, as responses have it."""
        return f"{self.name}-{self.version}"

    @property
    def passes_extra(self) -> bool:
        """Whether the provider of the model gets the fields of a request that Podium does not know."""
        return self.is_worker and all(worker.takes_extra for worker in self.conductor.pool.workers)

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of the workers."""
        return tuple(card.name for card in self.cards)

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards of the workers."""
        return self.conductor.pool.cards

    def effort(self, asked: Effort | None) -> Effort | None:
        """Return the effort of the model for a requested effort; `None` if the request changes nothing.

        It is the nearest effort of the model that is not higher, or else the lowest effort of the model.
        """
        if asked is None or not self.efforts:
            return None
        if asked not in _EFFORTS:
            raise ConfigError(f"reasoning_effort {asked!r:.80} is unknown: write {', '.join(_EFFORTS)}")
        known = [effort for effort in _EFFORTS if effort in self.efforts]
        lower = [each for each in known if _EFFORTS.index(each) <= _EFFORTS.index(asked)]
        return lower[-1] if lower else known[0]

    def limits(self, effort: Effort | None, given: Limits | None) -> Limits | None:
        """Return the limits of a run; `None` for those of the conductor."""
        changes = None if effort is None else self.efforts[effort]
        if changes is None:
            return given
        limits = given or self.conductor.limits
        return replace(
            limits, rounds=changes.rounds or limits.rounds, plan_steps=changes.steps or limits.plan_steps
        )


LIMITS: Mapping[Preset, Mapping[str, float]] = {
    "mini": {"plan_steps": 2, "rounds": 1},
    "ultra": {"rounds": 3},
}
"""Limits of each preset."""
EFFORTS: Mapping[Preset, Mapping[Effort, EffortSection]] = {
    "mini": {},
    "ultra": {
        "low": EffortSection(rounds=1),
        "medium": EffortSection(rounds=2),
        "high": EffortSection(rounds=3),
    },
}
DESCRIPTIONS: Mapping[Preset, str] = {
    "mini": "Short plans with cheap workers; a simple question goes to one worker, the strongest of them.",
    "ultra": "Plans with all workers; each answer is checked, and improved in further rounds.",
}


def cheap_workers(config: Config) -> Sequence[str]:
    """Return the names of the workers whose price is not above the median; all, if no price is known.

    Workers of unknown price are left out, if others have a price.
    """
    prices = _prices(config, config.worker_names)
    paid = [price for price in prices.values() if price > 0]
    if not prices:
        return config.worker_names
    most = median(paid) if paid else 0.0
    return [name for name in config.worker_names if name in prices and prices[name] <= most]


def strongest_worker(config: Config, names: Sequence[str]) -> str | None:
    """Return the name of the model with the highest price, of these workers; `None` if no price is known."""
    prices = _prices(config, [name for name in names if name in config.chat_names])
    return max(prices, key=lambda name: prices[name], default=None)


def _prices(config: Config, names: Sequence[str]) -> dict[str, float]:
    """Return the known prices of workers: of a million tokens read and a million written."""
    prices: dict[str, float] = {}
    for name in names:
        known = [worker.card.price for worker in config.workers(name) if worker.card.price is not None]
        if known:
            prices[name] = max(price.input + price.output for price in known)
    return prices


DEFAULT = "podium"
"""Name of the config's own conductor, if the config has no `[models]`."""
_DEFAULTS: Mapping[str, ModelSection] = {
    DEFAULT: ModelSection(description="The conductor of the configuration."),
    "mini": ModelSection(preset="mini"),
    "ultra": ModelSection(preset="ultra"),
}
_SHOWN_ONLY = {"aliases", "description", "show", "codex_instructions"}
"""The keys of a model that do not change its answers."""


class Catalogue:
    """The models of a server."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = {model.name: model for model in models}
        self._versioned = {model.versioned_id: model for model in models}

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    def find(self, name: str) -> ServedModel:
        """Return the model with this name, with this id including its version, or with a fitting alias."""
        found = self._models.get(name) or self._versioned.get(name) or self._with_alias(name)
        if found is None:
            raise ModelUnknown(f"the model {name!r:.200} does not exist, or your API key may not call it")
        return found

    def _with_alias(self, name: str) -> ServedModel | None:
        fits = (model for model in self if any(fnmatchcase(name, alias) for alias in model.aliases))
        return next(fits, None)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Keep the connections of all models open in the block."""
        async with AsyncExitStack() as stack:
            for model in self:
                await stack.enter_async_context(model.conductor)
            yield


def make_catalogue(config: Config, journal: Journal | None) -> Catalogue:
    """Return the models of `[models]`; without this table, the conductor of the file, `mini` and `ultra`.

    Each saved plan is a model, too: `plan/NAME`, whose questions are the arguments.
    """
    maker = _Maker(config, journal)
    models = [maker.make(name, section) for name, section in model_sections(config).items()]
    return Catalogue([*models, *map(maker.of_plan, config.plans.values())])


def model_sections(config: Config) -> Mapping[str, ModelSection]:
    """Return the tables of the models by their names, as `make_catalogue` does."""
    table = config.table("models", ModelsTable)
    if table is not None and table.root:
        return table.root
    return {DEFAULT: _DEFAULTS[DEFAULT]} if config.is_hosted else _DEFAULTS


class _Maker:
    """Makes the models of one config."""

    def __init__(self, config: Config, journal: Journal | None) -> None:
        self._config = config
        self._journal = journal
        self._created = int(time())
        tables = tomllib.loads(config.path.read_text(encoding="utf-8"))
        self._tables = {name: tables[name] for name in tables if name not in ("server", "models")}

    def make(self, name: str, section: ModelSection) -> ServedModel:
        """Return a model."""
        self._check(name, section)
        conductor = self._hosted(name, section) if self._config.is_hosted else self._conductor(name, section)
        is_worker = section.worker is not None or self._config.is_hosted
        described = DESCRIPTIONS[section.preset] if section.preset else ""
        efforts = EFFORTS[section.preset] if section.preset else {}
        return ServedModel(
            name=name,
            version=section.version or self._version(section),
            conductor=conductor,
            is_worker=is_worker,
            aliases=tuple(section.aliases),
            description=section.description or described,
            show=section.show or ("none" if is_worker else "steps"),
            efforts=section.efforts or efforts,
            created=self._created,
            codex_instructions=self._instructions(name, section),
        )

    def of_plan(self, plan: SavedPlan) -> ServedModel:
        """Return the model of a saved plan."""
        name = f"plan/{plan.name}"
        facts = [self._tables, plan.steps, plan.schema]
        return ServedModel(
            name=name,
            version=_hash(facts),
            conductor=self._build(
                ModelSection(), Variant(card=_card(name), plan=plan, journal=self._journal)
            ),
            is_worker=False,
            aliases=(),
            description=plan.description,
            show="steps",
            efforts={},
            created=self._created,
            codex_instructions=None,
            parameters=plan.schema,
        )

    def _instructions(self, name: str, section: ModelSection) -> str | None:
        """Return the text of the file with the instructions of Codex."""
        if section.codex_instructions is None:
            return None
        path = self._config.path.parent / Path(section.codex_instructions).expanduser()
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise self._refusal(name, "codex_instructions", f"cannot be read: {path}: {error}") from error
        if not text:
            raise self._refusal(name, "codex_instructions", f"is an empty file: {path}")
        return text

    def _conductor(self, name: str, section: ModelSection) -> Conductor:
        if section.worker is not None:
            self._config.worker(section.worker)  # the tools of an MCP server are several workers
            variant = Variant(
                card=_card(name), workers=(section.worker,), verbatim=True, journal=self._journal
            )
            return self._build(section, variant)
        workers: Sequence[str] | None = section.workers
        accept = None if section.accept is None else self._config.worker(section.accept)
        direct = section.direct
        if section.preset == "mini":
            workers = workers or cheap_workers(self._config)
            if direct is None and (self._config.is_hosted or self._config.planner().rounds is None):
                direct = strongest_worker(self._config, workers) or True
        known = workers or self._config.worker_names
        if isinstance(direct, str) and direct not in known:
            told = f"names {direct!r}; the workers of the model are {', '.join(known)}"
            raise self._refusal(name, "direct", told)
        if section.preset == "ultra" and accept is None:
            accept = self._config.planner().worker
        variant = Variant(
            card=_card(name), workers=workers, accept=accept, direct=direct, journal=self._journal
        )
        return self._build(section, variant)

    def _build(self, section: ModelSection, variant: Variant) -> Conductor:
        limits: dict[str, Any] = dict(LIMITS[section.preset]) if section.preset else {}
        limits |= section.limits
        return self._config.conductor(limits=limits, journaled=False, variant=variant)

    def _hosted(self, name: str, section: ModelSection) -> Conductor:
        for key in ("preset", "worker", "workers", "direct", "accept"):
            if getattr(section, key) is not None:
                raise self._refusal(name, key, "has no effect with [hosted]: leave it out")
        variant = Variant(card=_card(name), journal=self._journal)
        return self._config.conductor(limits=section.limits, journaled=False, variant=variant)

    def _check(self, name: str, section: ModelSection) -> None:
        """Raise `ConfigError` if the section names a worker that does not exist."""
        named: dict[str, Sequence[str | None]] = {
            "worker": [section.worker],
            "accept": [section.accept],
            "workers": section.workers or [],
        }
        for key, workers in named.items():
            for worker in workers:
                if worker is not None and worker not in self._config.worker_names:
                    known = ", ".join(self._config.worker_names) or "none"
                    raise self._refusal(name, key, f"names {worker!r}; the workers of the file are {known}")

    def _refusal(self, name: str, key: str, told: str) -> ConfigError:
        return ConfigError(f"{self._config.path}: {key!r} in [models.{name}] {told}")

    def _version(self, section: ModelSection) -> str:
        """Return the version of a model: a hash of the configuration without the other models."""
        facts = [
            self._tables,
            section.model_dump(mode="json", exclude=_SHOWN_ONLY),
        ]
        return _hash(facts)


def _card(name: str) -> Card:
    return Card(name=name, description=CARD.description)


def _hash(facts: Sequence[object]) -> str:
    text = json.dumps(facts, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:8]


_CODEX_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
"""The efforts that all versions of Codex know."""
_TOOL_OUTPUT_BYTES = 10_000
"""Length to which Codex cuts the output of a tool; its own value for unknown models."""


def codex_form(model: ServedModel, instructions: str, priority: int) -> dict[str, Any]:
    """Return the entry of a model."""
    efforts = [effort for effort in _CODEX_EFFORTS if effort in model.efforts]
    windows = [card.context_window for card in model.cards if card.context_window is not None]
    takes_images = any("image_url" in card.parts for card in model.cards)
    return {
        "slug": model.name,
        "display_name": model.name,
        "description": model.description,
        "default_reasoning_level": efforts[-1] if efforts else None,
        "supported_reasoning_levels": [{"effort": effort, "description": effort} for effort in efforts],
        "shell_type": "shell_command",
        "visibility": "list",
        "supported_in_api": True,
        "priority": priority,
        "upgrade": None,
        "base_instructions": instructions,
        "supports_reasoning_summaries": model.show != "none",
        "support_verbosity": False,
        "default_verbosity": None,
        "apply_patch_tool_type": None,
        "truncation_policy": {"mode": "bytes", "limit": _TOOL_OUTPUT_BYTES},
        "supports_parallel_tool_calls": True,
        "context_window": min(windows, default=None),
        "experimental_supported_tools": [],
        "input_modalities": ["text", "image"] if takes_images else ["text"],
    }


class ModelsApi:
    """`GET /v1/models` and `GET /v1/models/{model}`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def list(self, exchange: Exchange, caller: Caller) -> None:
        """List the models that the caller may call."""
        models = [model for model in self._catalogue if caller.may_call(model.name)]
        if _is_anthropic(exchange):
            entries = [_anthropic_form(model) for model in models]
            ends = {"first_id": entries[0]["id"], "last_id": entries[-1]["id"]} if entries else {}
            await exchange.json(
                {"data": entries, "has_more": False, "first_id": None, "last_id": None, **ends}
            )
            return
        data = [_openai_form(model) for model in models]
        listed: dict[str, Any] = {"object": "list", "data": data}
        if "client_version" in parse_qs(
            exchange.query, keep_blank_values=True
        ):  # Codex, which reads `models`
            listed["models"] = [
                codex_form(model, model.codex_instructions, number)
                for number, model in enumerate(models)
                if model.codex_instructions is not None
            ]
        await exchange.json(listed)

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show one model."""
        name = str(exchange.path_params["model"])
        model = self._catalogue.find(name)
        if not caller.may_call(model.name):
            raise ModelUnknown(f"the model {name!r:.200} does not exist, or your API key may not call it")
        await exchange.json(_anthropic_form(model) if _is_anthropic(exchange) else _openai_form(model))


def _is_anthropic(exchange: Exchange) -> bool:
    """Return whether the client uses Anthropic's API."""
    return exchange.header("anthropic-version") is not None


def _anthropic_form(model: ServedModel) -> dict[str, Any]:
    created = datetime.fromtimestamp(model.created, UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": model.name, "display_name": model.name, "created_at": created}


def _openai_form(model: ServedModel) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "podium",
        "description": model.description,
        "version": model.versioned_id,
        "workers": list(model.workers),
        "efforts": list(model.efforts),
        "podium": {"acts": model.conductor.acts, "parameters": model.parameters},
    }
