"""Models and agents of the SDK that say what a test scripts, and clients of loopback servers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agents import Agent, Model, ModelResponse, OpenAIChatCompletionsModel, Usage
from agents.items import TResponseOutputItem, TResponseStreamEvent
from openai import AsyncOpenAI
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from servers.chat_server import MODEL, USAGE, ChatServer, Script

from podium.usage import Usage as PodiumUsage

Speak = Callable[[str], Awaitable[str]]
READ, WRITTEN = 30, 12
"""Tokens that each call of a scripted model reports."""
CALL_TOKENS = USAGE["total_tokens"]
ONE_CALL = PodiumUsage(USAGE["prompt_tokens"], USAGE["completion_tokens"])
"""What a call of a scripted server reports."""


def message(text: str) -> TResponseOutputItem:
    part = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")


class SpeakingModel(Model):
    """Says what it is scripted to say to all that it is shown."""

    def __init__(self, speak: Speak) -> None:
        self._speak = speak
        self.asked: list[str] = []

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - as the SDK has it
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        text = await self._said(system_instructions, input)
        used = Usage(requests=1, input_tokens=READ, output_tokens=WRITTEN, total_tokens=READ + WRITTEN)
        return ModelResponse([message(text)], used, None)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - as the SDK has it
        *_: Any,
        **__: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        text = await self._said(system_instructions, input)
        for number, word in enumerate(text.split(" ")):
            yield ResponseTextDeltaEvent(
                delta=word if number == 0 else f" {word}",
                item_id="m",
                output_index=0,
                content_index=0,
                logprobs=[],
                sequence_number=number,
                type="response.output_text.delta",
            )
        response = Response(
            id="r",
            created_at=0,
            model="speaking",
            object="response",
            output=[message(text)],
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
            status="completed",
            usage=ResponseUsage(
                input_tokens=READ,
                output_tokens=WRITTEN,
                total_tokens=READ + WRITTEN,
                input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
                output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
            ),
        )
        yield ResponseCompletedEvent(response=response, sequence_number=99, type="response.completed")

    async def _said(self, instructions: str | None, items: Any) -> str:
        texts = [items] if isinstance(items, str) else [str(item.get("content", "")) for item in items]
        shown = "\n".join([instructions or "", *texts])
        self.asked.append(shown)
        return await self._speak(shown)


def speaker(name: str, speak: Speak, **options: Any) -> Agent[Any]:
    return Agent(name=name, model=SpeakingModel(speak), handoff_description=f"Speaks as {name}.", **options)


class ModelServer(ChatServer):
    """A scripted server, with the SDK's models of it, which retry nothing."""

    def __init__(self, reply: Script) -> None:
        super().__init__(reply)
        self._clients: list[AsyncOpenAI] = []

    def model(self, url: str | None = None) -> OpenAIChatCompletionsModel:
        """Return a model of this server or another; its client is closed with this server."""
        client = AsyncOpenAI(base_url=url or self.url, api_key="none", max_retries=0)
        self._clients.append(client)
        return OpenAIChatCompletionsModel(MODEL, client)

    async def __aexit__(self, *raised: object) -> None:
        for client in self._clients:
            await client.close()
        await super().__aexit__(*raised)
