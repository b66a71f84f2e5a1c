"""Agents and clients of AutoGen's and Agent Framework's that say what a test scripts."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from agent_framework import BaseChatClient, ChatResponse, ChatResponseUpdate, Content, Message, ResponseStream
from agent_framework.openai import OpenAIChatCompletionClient as FrameworkClient
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, ModelClientStreamingChunkEvent, TextMessage
from autogen_core import CancellationToken
from autogen_core.models import RequestUsage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI
from servers.chat_server import MODEL, ChatServer, Script

Speak = Callable[[str], Awaitable[str]]
READ, WRITTEN = 230, 12
"""Tokens that each call reports."""


def client_of(url: str, **options: Any) -> OpenAIChatCompletionClient:
    info: dict[str, Any] = {"vision": True, "function_calling": True, "json_output": True}
    info |= {"structured_output": True, "family": "unknown"}
    return OpenAIChatCompletionClient(
        model=MODEL, model_info=info, max_retries=0, **{"api_key": "none", "base_url": url, **options}
    )


class ModelServer(ChatServer):
    """A scripted server, with AutoGen's own clients of it."""

    def __init__(self, reply: Script) -> None:
        super().__init__(reply)
        self._clients: list[Any] = []

    def client(self, **options: Any) -> OpenAIChatCompletionClient:
        """Return a client that retries nothing; it is closed with the server."""
        made = client_of(self.url, **options)
        self._clients.append(made)
        return made

    async def __aexit__(self, *raised: object) -> None:
        for made in self._clients:
            await made.close()
        await super().__aexit__(*raised)


class FrameworkServer(ModelServer):
    """The same, with Agent Framework's client of chat completions."""

    def client(self, **options: Any) -> Any:
        sdk = AsyncOpenAI(base_url=options.pop("base_url", self.url), api_key="none", max_retries=0)
        self._clients.append(sdk)
        return FrameworkClient(model=MODEL, async_client=sdk, **options)


class Speaker(BaseChatAgent):
    """Remembers what it was told, as agents do, and says what it is scripted to say to all of it."""

    acts = False

    def __init__(self, name: str, speak: Speak, *, streams: bool = True) -> None:
        super().__init__(name, f"Speaks as {name}.")
        self._speak = speak
        self._streams = streams
        self.heard: list[str] = []
        self.resets = 0

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Any:
        return [item async for item in self.on_messages_stream(messages, cancellation_token)][-1]

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        self.heard += [message.to_model_text() for message in messages]
        text = await self._speak("\n".join(self.heard))
        for number, word in enumerate(text.split(" ") if self._streams else ()):
            piece = word if number == 0 else f" {word}"
            yield ModelClientStreamingChunkEvent(content=piece, source=self.name)
        usage = RequestUsage(prompt_tokens=READ, completion_tokens=WRITTEN)
        yield Response(chat_message=TextMessage(content=text, source=self.name, models_usage=usage))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self.heard.clear()
        self.resets += 1


class SpeakingClient(BaseChatClient[Any]):
    def __init__(self, speak: Speak) -> None:
        super().__init__()
        self._speak = speak
        self.asked: list[str] = []

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, **_: Any) -> Any:
        used = {"input_token_count": READ, "output_token_count": WRITTEN, "total_token_count": READ + WRITTEN}
        shown = "\n".join(message.text for message in messages)
        self.asked.append(shown)

        async def whole() -> ChatResponse[Any]:
            text = await self._speak(shown)
            said = Message("assistant", [text])
            return ChatResponse(messages=[said], usage_details=used, finish_reason="stop")

        async def pieces() -> AsyncGenerator[ChatResponseUpdate, None]:
            text = await self._speak(shown)
            for number, word in enumerate(text.split(" ")):
                piece = word if number == 0 else f" {word}"
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(piece)])
            counted = [Content.from_usage(used)]
            yield ChatResponseUpdate(role="assistant", contents=counted, finish_reason="stop")

        return ResponseStream(pieces(), finalizer=ChatResponse.from_updates) if stream else whole()
