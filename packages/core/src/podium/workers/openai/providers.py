"""What providers of OpenAI's API differ in: one table.

It owns which field is called what, and what is refused or ignored. It writes no request;
`chat_body` does, as a row says. Facts are of late 2026; a row with an assumption says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from podium.errors import ConfigError
from podium.workers.openai.timeouts import Timeouts

ConstraintKind = Literal["json", "grammar"]
Field = Literal["temperature", "top_p", "stop", "seed", "stream_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How one provider wants to be asked."""

    name: str
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the field is called that bounds an answer."""
    effort: Literal["reasoning_effort", "reasoning"] | None = "reasoning_effort"
    """The field for reasoning effort; `reasoning` holds an object. `None` means it takes none."""
    constraints: Mapping[ConstraintKind, Literal["structured_outputs", "response_format", "grammar"]] = field(
        default_factory=dict
    )
    """The field that asks for each kind of constraint; a kind that is absent cannot be asked for."""
    timeouts: Timeouts = Timeouts()
    """How long to wait where nobody says."""
    omitted: frozenset[Field] = frozenset()
    """Fields it refuses or ignores: they are not sent."""
    strict_models: tuple[str, ...] = ()
    """How names begin of models that refuse more."""
    lenient_models: tuple[str, ...] = ()
    """How names begin of models that `strict_models` names by mistake."""
    strict_omitted: frozenset[Field] = frozenset()
    """Fields that those models refuse: they are not sent."""

    def omits(self, model: str) -> frozenset[Field]:
        """Return the fields that are not sent to `model`."""
        if model.startswith(self.strict_models) and not model.startswith(self.lenient_models):
            return self.omitted | self.strict_omitted
        return self.omitted


def find_provider(name: str) -> Provider:
    """Return the row called `name`.

    Raises:
        ConfigError: there is none.
    """
    if name not in PROVIDERS:
        raise ConfigError(f"provider {name!r} is not known: choose of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]


_ROWS = (
    Provider(
        name="openai",
        max_tokens="max_completion_tokens",
        constraints={"json": "response_format"},
        strict_models=("o1", "o3", "o4", "gpt-5", "gpt-6"),
        lenient_models=("gpt-5-chat",),
        strict_omitted=frozenset({"temperature", "top_p", "stop"}),
    ),
    # its OpenAI layer ignores response_format, seed and reasoning_effort; that models after
    # Opus 4.7 refuse sampling too is assumed
    Provider(
        name="anthropic",
        effort=None,
        omitted=frozenset({"seed"}),
        strict_models=("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-fable"),
        strict_omitted=frozenset({"temperature", "top_p"}),
    ),
    # refuses fields it does not know, seed among them
    Provider(name="gemini", constraints={"json": "response_format"}, omitted=frozenset({"seed"})),
    # guided_json and guided_grammar are answered with 200 and silently ignored
    Provider(name="vllm", constraints={"json": "structured_outputs", "grammar": "structured_outputs"}),
    Provider(name="ollama", constraints={"json": "response_format"}),
    Provider(name="llamacpp", constraints={"json": "response_format", "grammar": "grammar"}),
    # drops by itself what a model does not take
    Provider(name="openrouter", effort="reasoning", constraints={"json": "response_format"}),
    # public lists of its parameters name neither sampling nor stop; that it refuses them is assumed
    Provider(
        name="fugu",
        timeouts=Timeouts(first_byte=3600.0, idle=3600.0, total=7200.0),  # it may work for an hour first
        constraints={"json": "response_format"},
        omitted=frozenset({"temperature", "top_p", "stop", "seed"}),
    ),
)

PROVIDERS: Mapping[str, Provider] = {row.name: row for row in _ROWS}
"""The rows by name."""
