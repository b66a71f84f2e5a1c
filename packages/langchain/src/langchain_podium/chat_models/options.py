"""What one call of a chat model asks for, in LangChain's words, as a run of a conductor takes it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podium.errors import ConfigError
from podium.policy import Policy
from podium.types import Constraint, Part, Sampling, Tools

TAKES: Final = frozenset(
    {
        "temperature",
        "max_tokens",
        "stop",
        "timeout",
        "tools",
        "tool_choice",
        "response_format",
        "model",
        "labels",
        "policy",
    }
)
"""What a call can say."""
_CHOICES: Final = {"any": "required", "required": "required", "auto": "auto", "none": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a call asks for."""

    tools: Tools
    sampling: Sampling
    """How the worker of the plan's last step is to write."""
    timeout: float | None
    """Most seconds of the whole run; `None` leaves that to the conductor."""
    model: str
    """What the answer's message calls the model, and a hosted conductor is asked as."""
    labels: frozenset[str]
    policy: Policy | None

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Options":
        """Read what a call says, with what the model has where that says nothing.

        Raises:
            ConfigError: there is one that no conductor takes, or of no meaning.
        """
        if unknown := sorted(said.keys() - TAKES):
            told = ", ".join(unknown)
            raise ConfigError(f"ChatPodium takes no {told}: a call may say {', '.join(sorted(TAKES))}")
        labels: Iterable[str] = said.get("labels") or ()
        return cls(
            tools=Tools(tuple(said.get("tools") or ()), said.get("tool_choice")),
            sampling=Sampling(
                temperature=said.get("temperature"),
                max_tokens=said.get("max_tokens"),
                stop=_stops(said.get("stop")),
                constraint=_constraint(said.get("response_format")),
            ),
            timeout=said.get("timeout"),
            model=said["model"],
            labels=frozenset(labels),
            policy=said.get("policy"),
        )

    @property
    def forces(self) -> bool:
        """Whether the answer has to be a call of a tool."""
        return self.tools.choice not in (None, "auto", "none")


def choice_of(tool_choice: object, tools: Sequence[Part]) -> str | Part | None:
    """Return LangChain's choice of a tool as OpenAI writes it.

    Raises:
        ValueError: it chooses a tool that is not offered.
    """
    if tool_choice is None or tool_choice is False:
        return None
    if tool_choice is True:
        return "required"
    if isinstance(tool_choice, str) and tool_choice in _CHOICES:
        return _CHOICES[tool_choice]
    names = [tool["function"]["name"] for tool in tools]
    name = tool_choice
    if isinstance(tool_choice, Mapping):
        name = tool_choice.get("function", {}).get("name")
    if name not in names:
        raise ValueError(f"tool_choice {tool_choice!r:.80} is none of the tools: {', '.join(names)}")
    return {"type": "function", "function": {"name": name}}


def _stops(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    return (stop,) if isinstance(stop, str) else tuple(stop or ())


def _constraint(form: Mapping[str, Any] | None) -> Constraint | None:
    if form is None:
        return None
    if form.get("type") != "json_schema" or "schema" not in form.get("json_schema", {}):
        raise ConfigError(
            f"response_format is {form!r:.80}: it is "
            '{"type": "json_schema", "json_schema": {"name": …, "schema": …}}, or use with_structured_output'
        )
    return Constraint("json", form["json_schema"]["schema"])
