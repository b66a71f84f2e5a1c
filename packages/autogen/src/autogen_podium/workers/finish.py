"""Record the finish reasons of the models in an agent or team, which AutoGen's messages do not have."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final

from autogen_agentchat.base import ChatAgent
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, ModelInfo, RequestUsage

from autogen_podium.cards import create_args
from autogen_podium.messages import read_usage
from autogen_podium.workers.members import members_of
from autogen_podium.workers.refusals import hearing, hearing_stream
from podium.errors import AnswerRefused
from podium.types.messages import storable
from podium.usage import Usage

_CLIENT: Final = "_model_client"
_MAX_QUOTE: Final = 300


class Finishes:
    """The texts that models wrote during one step, and their finish reasons."""

    def __init__(self) -> None:
        self._ended: list[tuple[str, str | None, str]] = []
        self.managers_usage: Usage | None = Usage()
        """Tokens of the managers of teams, which are on no message; `None` if unknown."""
        self.last_error: Exception | None = None
        """The latest exception of a model client."""

    def add(
        self, result: CreateResult, refusals: list[str], *, unknown: str | None, is_managers: bool
    ) -> None:
        """Add a result.

        Args:
            result: the result.
            refusals: texts in which the model refused to answer.
            unknown: the finish reason to use if the client reports `unknown`.
            is_managers: whether the manager of a team called the model.
        """
        if is_managers:
            used = read_usage(result.usage)
            known = self.managers_usage
            self.managers_usage = None if used is None or known is None else known + used
        if isinstance(result.content, str):
            reason = unknown if result.finish_reason == "unknown" else result.finish_reason
            self._ended.append((result.content, reason, storable("".join(refusals))))

    def ending_of(self, text: str) -> tuple[str | None, str | None]:
        """Return the finish reason of the latest answer with this text, and the text of its refusal.

        The finish reason of a text that no model wrote is `stop`.
        """
        found = (
            (reason, refusal or None) for wrote, reason, refusal in reversed(self._ended) if wrote == text
        )
        return next(found, ("stop", None))

    def last_refusal(self, worker: str) -> AnswerRefused | None:
        """Return the error if the latest answer was refused."""
        refusal = self._ended[-1][2] if self._ended else ""
        told = f"the last model behind worker {worker!r} refused to answer: {refusal[:_MAX_QUOTE]!r}"
        return AnswerRefused(told, maybe_paid=True) if refusal else None


@contextmanager
def watching(agent: object, finishes: Finishes) -> Iterator[None]:
    """Watch the model clients of an agent, or of a team's agents and managers, in the block."""
    held: list[tuple[Any, ChatCompletionClient]] = []
    try:
        for each in members_of(agent):
            client = vars(each).get(_CLIENT)
            if isinstance(client, ChatCompletionClient):
                inner = client._client if isinstance(client, _WatchedClient) else client  # noqa: SLF001 - the class below
                held.append((each, inner))
                is_managers = not isinstance(each, ChatAgent)
                setattr(each, _CLIENT, _WatchedClient(client, finishes, is_managers=is_managers))
        yield
    finally:
        for each, client in held:
            setattr(each, _CLIENT, client)


class _WatchedClient(ChatCompletionClient):
    """Calls another client, and records the finish reasons of its answers."""

    component_type = "model"

    def __init__(self, client: ChatCompletionClient, finishes: Finishes, *, is_managers: bool) -> None:
        self._client = client
        self._finishes = finishes
        self._is_managers = is_managers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        refusals: list[str] = []
        with self._noting_errors(), hearing(self._client, refusals):
            result = await self._client.create(messages, **options)
        self._finishes.add(result, refusals, unknown="stop", is_managers=self._is_managers)
        return result

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        # A client reports "unknown" if a stream ended without a finish reason.
        unknown = "stop" if create_args(self._client).get("stop") else None
        refusals: list[str] = []
        stream = self._client.create_stream(messages, **options)
        async with aclosing(hearing_stream(self._client, stream, refusals)) as pieces:
            while True:
                with self._noting_errors():
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                if isinstance(piece, CreateResult):
                    self._finishes.add(piece, refusals, unknown=unknown, is_managers=self._is_managers)
                yield piece

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # raised again: only noted, because a team hides what ended it
            self._finishes.last_error = error
            raise

    async def close(self) -> None:
        await self._client.close()

    def actual_usage(self) -> RequestUsage:
        return self._client.actual_usage()

    def total_usage(self) -> RequestUsage:
        return self._client.total_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        return self._client.count_tokens(messages, tools=tools)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        return self._client.remaining_tokens(messages, tools=tools)

    @property
    def capabilities(self) -> Any:
        return self._client.capabilities

    @property
    def model_info(self) -> ModelInfo:
        return self._client.model_info

    def dump_component(self) -> Any:
        return self._client.dump_component()
