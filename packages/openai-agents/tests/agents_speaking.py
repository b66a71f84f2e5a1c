"""Models and agents of the SDK that say what a test scripts, and clients of loopback servers."""

from collections.abc import Awaitable, Callable
from typing import Any

from agents import Agent, Model, ModelResponse, OpenAIChatCompletionsModel, Usage
from agents.items import TResponseOutputItem
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

    async def _told(self, system: str | None, items: Any) -> str:
        texts = [items] if isinstance(items, str) else [str(item.get("content", "")) for item in items]
        self.asked.append("\n".join([system or "", *texts]))
        return await self._speak(self.asked[-1])

    async def get_response(self, system_instructions: str | None, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
        said = message(await self._told(system_instructions, input))
        used = Usage(requests=1, input_tokens=READ, output_tokens=WRITTEN, total_tokens=READ + WRITTEN)
        return ModelResponse([said], used, None)

    async def stream_response(self, system_instructions: str | None, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
        text = await self._told(system_instructions, input)
        at: Any = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
        for number, word in enumerate(text.split(" ")):
            piece = word if number == 0 else f" {word}"
            yield ResponseTextDeltaEvent(
                delta=piece, sequence_number=number, type="response.output_text.delta", **at
            )
        usage = ResponseUsage(
            input_tokens=READ,
            output_tokens=WRITTEN,
            total_tokens=READ + WRITTEN,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        )
        facts: Any = {"id": "r", "created_at": 0, "model": "speaking", "object": "response", "tools": []}
        facts |= {"tool_choice": "auto", "parallel_tool_calls": True, "status": "completed"}
        response = Response(output=[message(text)], usage=usage, **facts)
        yield ResponseCompletedEvent(response=response, sequence_number=99, type="response.completed")


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
