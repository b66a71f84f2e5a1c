"""A line of OpenAI's batch files: a request of chat completions or of the Responses API."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import time
from typing import Annotated, Any, Literal

from pydantic import Field

from podium.hosts.completions import Body
from podium.types import Message
from podium_server.api.bodies import read_body
from podium_server.api.chat.request import ChatRequest
from podium_server.api.chat.response import whole_response
from podium_server.api.responses.items import messages_of, read_items
from podium_server.api.responses.request import ResponseRequest
from podium_server.api.responses.writer import Response, ResponseWriter
from podium_server.batch.question import Answer
from podium_server.http import BadRequest
from podium_server.keys import Caller
from podium_server.models import ServedModel
from podium_server.turn import Asked, Recorded, Turn, Turns


class OpenAILine(Body):
    """A line of an input file of OpenAI's Batch API."""

    custom_id: Annotated[str, Field(min_length=1)]
    method: Literal["POST"] = "POST"
    url: Literal["/v1/chat/completions", "/v1/responses"]
    body: dict[str, Any]
    failure: Any = None
    """Ignored: a line of a file with failures has it."""

    @property
    def id(self) -> str:
        """The id of the line."""
        return self.custom_id

    @property
    def model(self) -> object:
        """The model in the body; `None` if it has none."""
        return self.body.get("model")

    def content(self) -> Mapping[str, Any]:
        """Return what the run depends on, except the model."""
        return {"url": self.url, "body": {key: self.body[key] for key in self.body if key != "model"}}

    def check(self, model: ServedModel) -> None:
        """Raise `PodiumError` if the body is invalid."""
        self._asked(self._request(model.name), "")

    def conversation_for(self, model: ServedModel) -> Sequence[Message]:
        """Return the conversation, with the question last."""
        return self._asked(self._request(model.name), "").messages

    async def answer(
        self, turns: Turns, model: ServedModel, run_id: str, recorded: Recorded | None
    ) -> Answer:
        """Run the request; see `Request.answer`."""
        request = self._request(model.name)
        async with turns.admitted(Caller(), self._asked(request, run_id), recorded) as turn:
            if isinstance(request, ChatRequest):
                body: Mapping[str, Any] = whole_response(turn, await turn.run())
            else:
                body = await _response(request, turn)
            summary = turn.summary
            return Answer(
                result=turn.answer.result, status=summary["status"], problem=turn.problem, body=body
            )

    def _request(self, model: str) -> ChatRequest | ResponseRequest:
        raw = json.dumps({**self.body, "model": model}).encode()
        if self.url == "/v1/chat/completions":
            return read_body(raw, ChatRequest)
        return read_body(raw, ResponseRequest)

    def _asked(self, request: ChatRequest | ResponseRequest, run_id: str) -> Asked:
        if request.stream:
            raise BadRequest("a line of a batch cannot be streamed: leave out `stream`", param="stream")
        if isinstance(request, ChatRequest):
            return replace(request.asked(None, ""), run_id=run_id, may_exist=True)
        for field in ("background", "previous_response_id"):
            if getattr(request, field):
                raise BadRequest(f"a line of a batch cannot have `{field}`: leave it out", param=field)
        messages = messages_of(request.instructions, read_items(request.input, run_id))
        return request.asked(messages, run_id=run_id, keeps=True, may_exist=True)


async def _response(request: ResponseRequest, turn: Turn) -> Mapping[str, Any]:
    """Run a turn, and return the body of its response; it is in the journal, but not stored as a response."""
    response = Response(
        request=request, run_id=turn.run_id, model=turn.model.versioned_id, created=int(time()), keeps=False
    )
    await ResponseWriter(response).write(turn)
    return response.to_json()
