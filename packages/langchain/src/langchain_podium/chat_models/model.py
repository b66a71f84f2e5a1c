"""The conductor as a chat model: LangChain's face of it.

It owns the parameters and what a call may say over them. How LangChain calls a chat model,
what is asked of the conductor and what comes of it is beside it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, cast

from langchain_core.caches import BaseCache
from langchain_core.language_models import LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field, model_validator

from langchain_podium.chat_models.call import ModelCall
from langchain_podium.chat_models.conducted import ConductedChatModel
from langchain_podium.chat_models.structured import Method, Schema, structured
from langchain_podium.planner import as_planner
from langchain_podium.workers import as_worker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import Retry
from podium.hosted import HostedConductor
from podium.hosts import ConductorFace, make_conductor, read_tools

NAME = "podium"
"""What a chat model over a conductor of one's own is called."""


@ConductorFace.register
class ChatPodium(ConductedChatModel):
    """A conductor as a chat model: plans each question and has its workers answer it.

    Give it a conductor, or a planner and workers to make one of. Tools, `temperature`,
    `max_tokens` and `stop` go to the worker of the plan's last step, who writes the answer.

    Raises:
        ValidationError: a parameter is none there is, or there is nobody to answer.
    """

    conductor: Conductor | HostedConductor = Field(
        default_factory=lambda: cast("Any", None), exclude=True, repr=False
    )
    """Who answers; where none is given, one is made of `planner` and `workers`."""
    planner: Any = Field(default=None, exclude=True, repr=False)
    """A chat model, or a `podium` planner, to make a conductor of, as below; `None` once it is made."""
    fallback_planner: Any = Field(default=None, exclude=True, repr=False)
    """A chat model or a planner that plans when `planner` gave no plan; `None` uses none."""
    workers: Sequence[Any] = Field(default=(), exclude=True, repr=False)
    """Whatever `as_worker` takes."""
    max_retries: int | None = Field(default=None, ge=0, exclude=True, repr=False)
    """How often a failed call of a worker is made again; `None` means as `Retry` has it."""
    model_name: str = Field(default="", alias="model")
    """What messages and traces call the model; a hosted conductor is asked as this model. Empty means
    `podium`, or the hosted conductor's own."""
    temperature: float | None = None
    """Of the worker that writes the answer; `None` leaves it to that worker, as below."""
    max_tokens: int | None = None
    """Most tokens of the answer."""
    stop: list[str] | None = None
    """Texts at which the answer ends."""
    timeout: float | None = Field(default=None, gt=0)
    """Most seconds of a call, planning and all steps; after that it is cancelled and raises. `None` leaves it
    to the conductor's `Limits.seconds`, which keeps what there is of an answer."""
    partial: Literal["return", "raise"] = "return"
    """Whether an answer that lacks something is returned, or raised as `RunFailed`."""
    streaming: bool = False
    """Whether `invoke` streams too, for callbacks that read tokens."""
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    """LangChain's own cache of answers, which a conductor does without: its `Cache` knows who gave them."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True
    )

    @model_validator(mode="after")
    def _has_conductor(self) -> Self:
        has_parts = self.planner is not None or bool(self.workers)
        if (self.conductor is not None) == has_parts:
            raise ValueError("give ChatPodium either a conductor, or a planner and workers to make one of")
        if has_parts:
            self.conductor = self._made()
            self.planner, self.fallback_planner, self.workers, self.max_retries = None, None, (), None
        elif self.fallback_planner is not None:
            raise ValueError(
                "fallback_planner: a conductor has its own: Conductor(..., fallback_planner=...)"
            )
        elif self.max_retries is not None:
            raise ValueError(
                "max_retries: a conductor has its own: Conductor(..., retry=Retry(attempts=…)); "
                "a hosted one retries on its server"
            )
        if not self.model_name:
            asked = self.conductor
            self.model_name = asked.model if isinstance(asked, HostedConductor) else NAME
        return self

    def _made(self) -> Conductor:
        if self.planner is None or not self.workers:
            raise ValueError("a conductor is made of a planner and at least one worker: give both")
        retry = None if self.max_retries is None else Retry(attempts=self.max_retries + 1)
        options = {"retry": retry, "fallback_planner": self.fallback_planner}
        workers = [as_worker(worker) for worker in self.workers]
        return make_conductor(self.planner, workers, options, as_planner=as_planner, face="ChatPodium")

    @property
    def _llm_type(self) -> str:
        return "podium"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Who answers and how they write, for traces, and for LangChain's own cache where that is wanted."""
        conductor = self.conductor
        who: dict[str, Any] = {}
        if isinstance(conductor, Conductor):
            who = {"workers": [worker.identity or worker.card.name for worker in conductor.pool]}
        said = ("model_name", "temperature", "max_tokens", "stop")
        return who | {name: getattr(self, name) for name in said}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return super()._get_ls_params(stop=stop or self.stop, **kwargs)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools to the worker that writes the answer, where it takes any.

        Its calls are the message's `tool_calls`. The next turn, whose messages end with what
        the tools returned, goes on with the same plan: what other steps came to is in the
        message with the calls, and is not paid for again.

        Args:
            tools: functions, classes, tools, or schemas.
            tool_choice: `auto`, `none`, `any` or `required`, or the name of a tool; an answer
                that was to be a call and is none raises. `None` leaves it to the model.
            strict: whether arguments are held to the tool's schema, where the server can;
                `None` leaves it to the server.
            kwargs: what else is to be said in each call.

        Raises:
            ConfigError: `tool_choice` names none of the tools.
        """
        offered = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        choice = read_tools(offered, tool_choice).choice
        if choice is not None:
            kwargs["tool_choice"] = choice
        return self.bind(tools=offered, **kwargs)

    def with_structured_output(
        self,
        schema: Schema,
        *,
        method: Method = "function_calling",
        strict: bool | None = None,
        include_raw: bool = False,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a Runnable whose answers have a form.

        Args:
            schema: a Pydantic class, a `TypedDict`, a JSON schema, or a tool's.
            method: `function_calling` offers the schema as a tool that has to be called, to the
                worker of the last step; `json_schema` has that worker's server hold the text to
                it, where it can; `json_mode` only reads the answer as JSON, which the question
                has to ask for.
            strict: as in `bind_tools`.
            include_raw: whether to return a dict with `raw`, `parsed` and `parsing_error`, in
                place of raising what is wrong with the answer's form.
            kwargs: none are taken.

        Raises:
            ConfigError: there is no such method, or it cannot be strict.
            TypeError: there are other arguments.
        """
        if kwargs:
            raise TypeError(f"with_structured_output takes no {', '.join(kwargs)}")
        return structured(self, schema, method=method, strict=strict, include_raw=include_raw)

    def _call(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, said: dict[str, Any]
    ) -> ModelCall:
        conductor, own = self.conductor, {"model": self.model_name, "stop": self.stop}
        own |= {name: getattr(self, name) for name in ("temperature", "max_tokens", "timeout")}
        given = {name: value for name, value in {**said, "stop": stop}.items() if value is not None}
        call = ModelCall(conductor, messages, own | given, partial=self.partial)
        if isinstance(conductor, Conductor) and call.model != self.model_name:
            raise ConfigError(
                f"model {call.model!r}: a conductor's models are those of its planner and its workers"
            )
        return call
