"""The body of a chat completions request."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict

from podium.hosts import completions
from podium.types import Sampling
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
            user=self.safety_identifier or self.user or "",
        )


class PassedRequest(ChatRequest):
    """A body whose model is a worker that answers as itself: its provider gets all other fields."""

    model_config = ConfigDict(extra="allow")

    reasoning_effort: Any = None
    n: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    logprobs: Any = None
    top_logprobs: Any = None
    modalities: Any = None
    logit_bias: Any = None

    def read_sampling(self) -> Sampling:
        """Return the sampling of the worker, with the fields for its provider."""
        return replace(super().read_sampling(), extra=self._extra or None)

    @property
    def _extra(self) -> Mapping[str, Any]:
        """The fields that only the provider reads."""
        named = {name: getattr(self, name) for name in _PASSED}
        return {name: value for name, value in named.items() if value is not None} | (self.model_extra or {})


_PASSED = (
    *("n", "frequency_penalty", "presence_penalty", "logit_bias"),
    *("logprobs", "top_logprobs", "modalities"),
)
