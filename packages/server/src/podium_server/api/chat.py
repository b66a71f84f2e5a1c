"""`POST /v1/chat/completions`: OpenAI's chat completions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict

from podium.hosts import completions
from podium.hosts.completions import ChatEnd, ChatWriter, sse
from podium.types import Sampling
from podium_server.api.endpoint import told_fault
from podium_server.http import BadRequest, Exchange
from podium_server.http.exchange import fingerprint_of, read_body, read_messages
from podium_server.keys import Caller
from podium_server.models import ModelActs, ModelUnknown
from podium_server.settings import Effort
from podium_server.turn import Asked, Turn, Turns


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


def whole_response(turn: Turn, progress: str) -> dict[str, Any]:
    """Return the body of a response after the run has ended."""
    return _writer(turn).whole(turn.answered.answer.text, _end(turn), progress)


def _writer(turn: Turn, *, includes_usage: bool = False) -> ChatWriter:
    return ChatWriter(
        run_id=turn.run_id,
        model=turn.model.versioned_id,
        created=turn.created,
        includes_usage=includes_usage,
    )


def _end(turn: Turn) -> ChatEnd:
    answered = turn.answered
    return ChatEnd(
        tool_calls=answered.tool_calls,
        finish_reason=answered.finish_reason,
        usage=answered.usage,
        podium=answered.summary,
        logprobs=answered.extra.get("logprobs"),
        choices=answered.extra.get("choices", ()),
    )


PATH = "/v1/chat/completions"


class ChatApi:
    """`POST /v1/chat/completions`."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a request of chat completions."""
        raw = await exchange.body()
        request = self._read(raw)
        asked = request.asked(exchange.idempotency_key(), fingerprint_of(PATH, raw))
        if (
            exchange.header("x-podium-action") == "false"
            and self._turns.find(caller, asked.model).conductor.acts
        ):
            told = f"the model {asked.model!r} acts, and nothing was done: the step of your run is an action"
            raise ModelActs(told)

        async def answer() -> None:
            async with self._turns.admitted(caller, asked) as turn:
                exchange.run_id = turn.run_id
                if asked.stream:
                    writer = _writer(turn, includes_usage=request.includes_usage)
                    frames = turn.frames(writer.text, writer.progress, lambda: writer.end(_end(turn)))
                    await exchange.stream(
                        frames, lambda: turn.headers, lambda error: sse(told_fault(error).to_openai())
                    )
                else:
                    progress = await turn.run()
                    await exchange.json(whole_response(turn, progress), headers=turn.headers)

        await exchange.while_connected(answer)

    def _read(self, raw: bytes) -> ChatRequest:
        """Return the body of a request.

        A body with fields that no plan can honour is accepted for a worker that answers as itself.
        """
        try:
            return read_body(raw, ChatRequest)
        except BadRequest as refusal:
            try:
                request = read_body(raw, PassedRequest)
                passes = self._turns.catalogue.find(request.model).passes_extra
            except (BadRequest, ModelUnknown):
                passes = False
            if not passes:
                raise refusal from None
            return request
