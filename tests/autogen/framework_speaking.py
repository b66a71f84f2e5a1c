"""Agent Framework's own clients of a scripted server."""

from types import TracebackType
from typing import Any

from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI
from servers.chat_server import MODEL, ChatServer, Script


class FrameworkServer(ChatServer):
    """A scripted server, with Agent Framework's client of chat completions for it."""

    def __init__(self, reply: Script) -> None:
        super().__init__(reply)
        self._made: list[AsyncOpenAI] = []

    def client(self, **options: Any) -> OpenAIChatCompletionClient[Any]:
        """Return a client that retries nothing; it is closed with the server."""
        sdk = AsyncOpenAI(base_url=options.pop("base_url", self.url), api_key="none", max_retries=0)
        self._made.append(sdk)
        return OpenAIChatCompletionClient(model=MODEL, async_client=sdk, **options)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for sdk in self._made:
            await sdk.close()
        await super().__aexit__(kind, error, traceback)
