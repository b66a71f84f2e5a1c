"""A worker that calls a chat model of an endpoint.

The worker builds the request body, sends it through the endpoint and reads the answer. Retries are in
`podium.execution`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Any

from podium.errors import ConfigError, WorkerActs, WorkerBroken, WorkerTimeout
from podium.secrets import scrubbing
from podium.secrets.boundary import Boundary
from podium.types.messages import Completion, Sampling
from podium.workers.openai.chat_request import chat_body, merge_sampling
from podium.workers.openai.chat_response import AnswerReader
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.error_mapping import ReportedFault
from podium.workers.openai.known_models import with_known_facts
from podium.workers.openai.providers import ConstraintKind
from podium.workers.worker import Card, Request, Worker

_PATH = "/chat/completions"
_NO_ACTION = {"X-Podium-Action": "false"}
"""Sent with a step that must not act. A server of Podium whose model acts then refuses the call, before it
does anything; other servers ignore the header."""
_READING = Boundary("reading the answer", partial(WorkerBroken, maybe_paid=True), is_library=True)
"""Answers with unexpected types are errors of the server."""


class ChatWorker(Worker):
    """A model of an OpenAI-compatible endpoint.

    Args:
        model: the name of the model on the server.
        endpoint: the server. Workers of the same server share an endpoint and its connections.
        card: the worker's card for planners; by default with the model's name. A missing price or context
            window is looked up if the endpoint's URL belongs to a known provider.
        sampling: defaults for requests.
    """

    takes_tools = True

    def __init__(
        self,
        model: str,
        *,
        endpoint: Endpoint,
        card: Card | None = None,
        sampling: Sampling = Sampling(),
    ) -> None:
        if not isinstance(endpoint, Endpoint):
            raise ConfigError(  # without the URL, which may have a key
                f"endpoint is a {type(endpoint).__name__}: write endpoint=Endpoint(url, api_key=...)"
            )
        self.model = model
        self.endpoint = endpoint
        self.card = with_known_facts(card or Card(name=model), endpoint.base_url, model)
        self.sampling = sampling
        self.acts = endpoint.provider.acts

    def __repr__(self) -> str:
        return f"ChatWorker({self.model!r}, endpoint={self.endpoint!r})"

    @property
    def max_tokens(self) -> int | None:
        """Maximum tokens of an answer if the request has no limit; `None` sends no limit."""
        return self.sampling.max_tokens

    @property
    def constraint_kinds(self) -> frozenset[ConstraintKind]:
        """The kinds of constraint that the server supports; requests leave out other kinds."""
        return frozenset(self.endpoint.provider.constraints)

    @property
    def identity(self) -> str:
        """The identity of the worker for a cache: the model, its server, and the default sampling."""
        card, endpoint = self.card, self.endpoint
        server = (endpoint.base_url, endpoint.provider.name)
        return repr(("chat", card.name, card.version, self.model, server, self.sampling))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the model, with a streamed response if the request asks for it.

        Raises:
            WorkerActs: the model is a conductor of another Podium, and may act; `acts` is now true.
            WorkerError: the call failed.
        """
        try:
            async with aclosing(self._call(request)) as pieces:
                async for piece in pieces:
                    yield piece
        except WorkerActs:
            self.acts = True
            raise

    async def _call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        headers = {} if self.acts or request.caller is None else _NO_ACTION
        with scrubbing():
            sampling = merge_sampling(self.sampling, request.sampling)
            body = chat_body(
                self.endpoint.provider,
                self.model,
                request.messages,
                sampling,
                stream=request.stream,
                tools=request.tools,
            )
            answer = AnswerReader(is_bounding=sampling.effort is None)  # reasoning may be hidden
            if not request.stream:
                whole = await self.endpoint.ask(_PATH, body, deadline=request.deadline, headers=headers)
                with _READING:
                    answer.feed(whole)
            else:
                events = self.endpoint.listen(_PATH, body, deadline=request.deadline, headers=headers)
                try:
                    async with aclosing(events):
                        async for event in events:
                            with _READING:
                                text = answer.feed(event)
                            if text:
                                yield text
                except ReportedFault:
                    raise
                except (WorkerBroken, WorkerTimeout):
                    if answer.finish is None:
                        raise
            if answer.acts is not None:
                self.acts = answer.acts
            with _READING:
                completion = answer.completion(request.messages)
            yield completion

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self.endpoint,)
