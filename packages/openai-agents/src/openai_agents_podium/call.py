"""Convert one call of a `ConductorModel` from the SDK's arguments to Podium's."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from agents import AgentOutputSchemaBase, Handoff, ModelSettings, Tool, TResponseInputItem
from agents.model_settings import MCPToolChoice

from openai_agents_podium.messages import from_items, offered
from openai_agents_podium.tool_continuation import find_continuation
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import ChatCall, Partial, read_sampling, read_tools
from podium.types import Constraint, Message, Sampling, Tools
from podium.types.messages import read_conversation
from podium.workers import CallMiddleware, Request

_READ: Final = ("temperature", "top_p", "max_tokens", "tool_choice", "reasoning", "extra_args")
_NO_MATTER: Final = (
    "timeout", "retry", "preserve_raw_usage", "include_usage", "metadata", "store",
    "prompt_cache_retention", "prompt_cache_options",
)  # fmt: skip
"""Settings that the SDK's runner handles, or that do not change the answer."""
_CACHE_KEY: Final = "prompt_cache_key"
_SESSIONS: Final = ("agents-sdk:session:", "agents-sdk:group:")
"""The beginnings of keys that the SDK makes from the id of a session or of a group."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The arguments of one call of a model."""

    instructions: str | None
    input: str | Sequence[TResponseInputItem]
    settings: ModelSettings
    tools: Sequence[Tool]
    output_schema: AgentOutputSchemaBase | None
    handoffs: Sequence[Handoff[Any, Any]]

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation."""
        return from_items(self.instructions, self.input)

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of the tool calls in the conversation."""
        return frozenset(str(call.get("id")) for message in self.messages for call in message.tool_calls)

    @property
    def session(self) -> str | None:
        """A hash of the id of the session, or of the trace group without one; `None` without both.

        The SDK tells a model neither, but makes the key of its prompt cache from them.
        """
        key = str((self.settings.extra_args or {}).get(_CACHE_KEY, ""))
        return key if key.startswith(_SESSIONS) else None

    def as_chat_call(
        self,
        conductor: Conductor,
        *,
        partial: Partial,
        middleware: CallMiddleware | None,
    ) -> ChatCall:
        """Convert the call to a run of a conductor.

        Raises:
            ConfigError: the conductor does not accept a tool or a setting.
            QueryError: the conversation has no question.
        """
        tools = self.read_tools()
        _check_takers(conductor, tools)
        return ChatCall(
            conductor,
            self.messages,
            tools=tools,
            sampling=self.sampling(),
            continuation=find_continuation(self.input),
            partial=partial,
            session=self.session,
            options={"middleware": middleware},
        )

    def as_request(self, conductor: Conductor, outer: Request, *, stream: bool) -> Request:
        """Convert the call to a request for a conductor that executes a step of another run.

        Args:
            conductor: the conductor.
            outer: the request for that step.
            stream: whether the answer is streamed.

        Raises:
            ConfigError: the conductor does not accept a tool or a setting.
            QueryError: the conversation has no question.
        """
        query, tool_messages = read_conversation(self.messages)
        tools = self.read_tools()
        _check_takers(conductor, tools)
        return replace(
            outer,
            messages=(*query, *tool_messages),
            step_input=None,
            sampling=self.sampling(),
            tools=tools if tools.offered else None,
            tool_messages=tool_messages,
            stream=stream,
        )

    def read_tools(self) -> Tools:
        """Return the tools and handoffs that are offered to the worker of the last step.

        Raises:
            ConfigError: a tool is not a function, or the choice is not one of the tools.
        """
        functions, choice = offered(self.tools, self.handoffs), self.settings.tool_choice
        if isinstance(choice, MCPToolChoice):
            raise ConfigError("a conductor does not accept a tool_choice of an MCP server: name a tool")
        return read_tools(functions, choice) if functions else Tools(())

    def sampling(self) -> Sampling:
        """Return the sampling of the last step's worker.

        Raises:
            ConfigError: the conductor does not accept a setting.
        """
        settings = self.settings
        said = {each.name: getattr(settings, each.name) for each in fields(settings)}
        unknown = [
            name
            for name, value in said.items()
            if value is not None and name not in (*_READ, *_NO_MATTER) and (name, value) not in _DEFAULTS
        ]
        if unknown:
            told = f"{', '.join(_READ)}; seed and stop in extra_args"
            raise ConfigError(f"a conductor does not accept {', '.join(unknown)}: it accepts {told}")
        options = {name: said[name] for name in ("temperature", "top_p", "max_tokens")}
        if settings.reasoning is not None:
            options["reasoning_effort"] = settings.reasoning.effort
        extra = {name: value for name, value in (settings.extra_args or {}).items() if name != _CACHE_KEY}
        sampling = read_sampling(options | extra, of="ModelSettings.extra_args")
        schema = self.output_schema
        if schema is None or schema.is_plain_text():
            return sampling
        return replace(sampling, constraint=Constraint("json", schema.json_schema()))


def _check_takers(conductor: Conductor, tools: Tools) -> None:
    """Raise `ConfigError` for tools if no worker of the conductor accepts tools."""
    if tools.offered and not any(worker.takes_tools for worker in conductor.pool.workers):
        told = "the agent has tools or handoffs, but no participant of its conductor accepts tools"
        raise ConfigError(f"{told}: give them to a participant, or add a model to the participants")


_DEFAULTS: Final = (("parallel_tool_calls", True), ("verbosity", "low"))
"""The settings that the SDK sets for its default model."""
