"""The differences between providers of OpenAI's API: one table, with one row for each provider."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from podium.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts for a server, in seconds.

    Raises:
        ConfigError: a timeout is not above 0.
    """

    connect: float = 10.0
    """Until a connection is open: name lookup, TCP and TLS."""
    first_byte: float = 120.0
    """Until the first byte of a streamed response, including keep-alives. A whole response has `total`."""
    idle: float = 60.0
    """Between two pieces of a streamed response, including keep-alives."""
    total: float = 600.0
    """From the call to the end of the response."""

    def __post_init__(self) -> None:
        for timeout in fields(self):
            if not getattr(self, timeout.name) > 0:
                raise ConfigError(
                    f"timeout {timeout.name} is {getattr(self, timeout.name)!r}: it must be above 0"
                )


ConstraintKind = Literal["json", "grammar"]
Field = Literal["temperature", "top_p", "stop", "seed", "stream_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The form of requests to one provider."""

    name: str
    """Its name, in `Endpoint(provider=…)` and in `podium.toml`."""
    telemetry_name: str | None = None
    """Its `gen_ai.provider.name` in OpenTelemetry's conventions; `None` for `name`."""
    list_key_header: str | None = None
    """The header with the key that the list of models needs in addition to the bearer token."""
    list_headers: Mapping[str, str] = field(default_factory=dict)
    """Other headers that its list of models needs."""
    public_headers: frozenset[str] = frozenset()
    """Its request headers whose values are not secret, in lower case."""
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The field that limits the length of an answer."""
    effort: Literal["reasoning_effort", "reasoning"] | None = "reasoning_effort"
    """The field for reasoning effort; `None` if there is no such field. (The value of the field `reasoning`
    is an object.)
    """
    constraints: Mapping[
        ConstraintKind, Literal["structured_outputs", "response_format", "grammar", "tools"]
    ] = field(default_factory=dict)
    """The field for each kind of constraint; missing kinds are not supported. `tools` has one tool that the
    model must call, whose arguments are the answer."""
    timeouts: Timeouts = Timeouts()
    """Default timeouts of its endpoints."""
    caches_unasked: bool = False
    """Whether the provider caches every prompt by default.

    For some models, cache writes cost more than other input.
    """
    acts: bool = False
    """Whether a model counts as one that acts until an answer says whether it does; see `Worker.acts`."""
    list_owner: str = ""
    """The `owned_by` of models in the lists of its servers; empty if it varies."""
    omitted: frozenset[Field] = frozenset()
    """Fields that are not sent, because the provider refuses or ignores them."""
    strict_models: tuple[str, ...] = ()
    """Name prefixes of strict models, which refuse more fields."""
    lenient_models: tuple[str, ...] = ()
    """Name prefixes of models that match `strict_models` but are not strict."""
    strict_omitted: frozenset[Field] = frozenset()
    """Fields that are not sent to strict models."""

    def omits(self, model: str) -> frozenset[Field]:
        """Return the fields that are not sent to `model`."""
        if model.startswith(self.strict_models) and not model.startswith(self.lenient_models):
            return self.omitted | self.strict_omitted
        return self.omitted


def find_provider(name: str) -> Provider:
    """Return the provider called `name`."""
    if name not in PROVIDERS:
        raise ConfigError(f"provider {name!r} is unknown: choose one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]


_ROWS = (
    Provider(
        name="openai",
        caches_unasked=True,
        public_headers=frozenset({"openai-beta", "openai-organization"}),
        max_tokens="max_completion_tokens",
        constraints={"json": "response_format"},
        strict_models=("o1", "o3", "o4", "gpt-5", "gpt-6"),
        lenient_models=("gpt-5-chat",),
        strict_omitted=frozenset({"temperature", "top_p", "stop"}),
    ),
    # Its OpenAI layer ignores response_format, seed and reasoning_effort. Assumed: models after
    # Opus 4.7 refuse sampling too.
    Provider(
        name="anthropic",
        list_key_header="x-api-key",
        list_headers={"anthropic-version": "2023-06-01"},
        public_headers=frozenset({"anthropic-beta", "anthropic-version"}),
        effort=None,
        constraints={"json": "tools"},
        omitted=frozenset({"seed"}),
        strict_models=("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-fable"),
        strict_omitted=frozenset({"temperature", "top_p"}),
    ),
    # Refuses unknown fields, including seed.
    Provider(
        name="gemini",
        telemetry_name="gcp.gemini",
        constraints={"json": "response_format"},
        omitted=frozenset({"seed"}),
    ),
    # Silently ignores the older guided_json and guided_grammar.
    Provider(
        name="vllm",
        constraints={"json": "structured_outputs", "grammar": "structured_outputs"},
        list_owner="vllm",
    ),
    Provider(name="ollama", constraints={"json": "response_format"}, list_owner="library"),
    Provider(
        name="llamacpp",
        constraints={"json": "response_format", "grammar": "grammar"},
        list_owner="llamacpp",
    ),
    # Podium's own server.
    Provider(name="podium", constraints={"json": "response_format"}, list_owner="podium", acts=True),
    # Any other server: only fields that servers with OpenAI's API have in common.
    Provider(name="compatible"),
    # Drops fields that a model does not support.
    Provider(
        name="openrouter",
        public_headers=frozenset({"http-referer", "x-title"}),
        effort="reasoning",
        constraints={"json": "response_format"},
    ),
    # Its list of parameters names neither sampling nor stop. Assumed: it refuses them.
    Provider(
        name="fugu",
        timeouts=Timeouts(
            first_byte=3600.0, idle=3600.0, total=7200.0
        ),  # may take an hour before the first byte
        constraints={"json": "response_format"},
        omitted=frozenset({"temperature", "top_p", "stop", "seed"}),
    ),
)

PROVIDERS: Mapping[str, Provider] = {row.name: row for row in _ROWS}
"""The rows by name."""
DEFAULT_PROVIDER = "openai"
"""The default provider of an endpoint."""
COMPATIBLE = "compatible"
"""The provider of a server of unknown kind."""


def provider_of_owner(owners: Iterable[str]) -> str:
    """Return the name of the provider whose servers list models of these owners, else `compatible`."""
    listed = set(owners)
    return next((row.name for row in _ROWS if row.list_owner and {row.list_owner} == listed), COMPATIBLE)
