"""The body of a chat completions request."""

from podium.hosts import completions
from podium_server.api.bodies import read_messages
from podium_server.settings import Effort
from podium_server.turn import Asked


class ChatRequest(completions.ChatRequest):
    """The body of `POST /v1/chat/completions`."""

    reasoning_effort: Effort | None = None

    def asked(self, idempotency_key: str | None, fingerprint: str) -> Asked:
        """Return the request in the words of Podium."""
        return Asked(
            model=self.model,
            messages=read_messages("messages", self.messages),
            tools=self.read_tools(),
            sampling=self.read_sampling(),
            effort=self.reasoning_effort,
            stream=bool(self.stream),
            idempotency_key=idempotency_key,
            is_parallel=self.parallel_tool_calls is not False,
            fingerprint=fingerprint,
        )
