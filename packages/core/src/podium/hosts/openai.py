"""A conductor behind any OpenAI client of this process: a run answers each request, and nothing is sent.

    http = ConductorTransport(conductor).async_client()
    client = openai.AsyncOpenAI(http_client=http, base_url=BASE_URL, api_key="none", max_retries=0)

A run is in the task of its request, with its context variables, and a cancelled request cancels it. A failed
run raises its `PodiumError` inside the client, which `run_errors` raises again in place of the client's own
error. A client that retries would pay twice: hence `max_retries=0`.

A chat model of a host that has its own OpenAI client needs a few lines over this module: it passes the client
on, and adds what HTTP has no words for with `HostCall`.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any, Final

from podium.aio import iterate, run_sync
from podium.conductor import Conductor
from podium.errors import ConfigError, PodiumError, RunWaiting, unknown_options
from podium.hosts.chat import SAMPLING_OPTIONS, ChatAnswer, ChatCall
from podium.hosts.completions import ChatEnd, ChatRequest, ChatWriter, read_chat
from podium.hosts.continuation import ContinuationStore
from podium.hosts.faces import run_id_in
from podium.hosts.results import Partial, check_partial, result_metadata
from podium.run import Listener, RunOptions
from podium.secrets import BUGS
from podium.types import Event, Message, Part, Result
from podium.usage import Usage

BASE_URL: Final = "http://podium.invalid/v1"
"""The URL for clients, which is never resolved."""
_PATH: Final = "/chat/completions"
_EVENTS: Final = {"content-type": "text/event-stream"}
_OF_RUN: Final = ("run_id", "labels", "limits", "policy")
_HTTPX: Final = 2
"""The last major version of OpenAI's client over httpx; later ones use httpx2."""


@dataclass(slots=True, kw_only=True)
class HostCall:
    """What the chat model of a host adds to a request of its client, and the answer of this request.

    The request must be made inside of `asked`; the stream of an answer may be read outside of it.
    """

    messages: Sequence[Message] | None = None
    """The conversation, if it has more than the request, such as labels; `None` reads it from the request."""
    options: RunOptions = field(default_factory=RunOptions)
    """Options of the run: `run_id`, `labels`, `policy`, `middleware`, …."""
    session: str | None = None
    """The host's id of the session or thread; see `podium.hosts.RecordedRun`."""
    run_name: str | None = None
    """Names the run, in place of the session: with a journal, the same request continues its run."""
    continuation: object = None
    """See `ChatCall`; it has no effect unless the transport `carries` continuations."""
    partial: Partial | None = None
    """Whether an incomplete answer is returned, or raised as `RunFailed`; `None` means as the transport."""
    on_event: Listener | None = None
    """Called with each event as it happens."""
    shown: Callable[[Event], str] | None = None
    """Returns what the stream has of an event beside the answer, as reasoning (`reasoning_content`); empty
    for nothing. `None` shows the answer alone."""
    last_tools: Sequence[str] = ()
    """The names of tools that only the last step may call, such as handoffs."""
    asks: Callable[[str], Awaitable[Sequence[Part]]] | None = None
    """Returns the tool calls that ask a person for what a run waits for, by the run's id, as the answer;
    with `None`, or if there are none, a run that waits raises `RunWaiting`."""
    answer: ChatAnswer | None = None
    """The answer, after the response was written; `None` before, and if the run failed."""

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Add this to the request that is made in the block. Raises what `run_errors` raises."""
        token = _host.set(self)
        try:
            with run_errors():
                yield
        finally:
            _host.reset(token)


def run_options(given: dict[str, Any], *, of: str, beside: Iterable[str] = ()) -> dict[str, Any]:
    """Take what a host's call has for its run out of its options, and return it.

    Args:
        given: the options; those that are left are for the request.
        of: the name of the host's class, for error messages.
        beside: names that the host knows, in addition to the fields of a request.

    Raises:
        ConfigError: an option is unknown.
    """
    others = given.keys() - {*ChatRequest.model_fields, *beside}
    if told := unknown_options(of, others, [*_OF_RUN, *SAMPLING_OPTIONS]):
        raise ConfigError(told)
    return {name: given.pop(name) for name in _OF_RUN if name in given}


_host: Final = ContextVar[HostCall | None]("podium_host_call", default=None)


@contextmanager
def _taken() -> Iterator[HostCall]:
    """Yield what the host adds to this request, and to no request of a worker in its run."""
    host, token = _host.get(), _host.set(None)
    try:
        yield host or HostCall()
    finally:
        _host.reset(token)


@contextmanager
def run_errors() -> Iterator[None]:
    """Raise the error of a run, with its code and result, in place of the client's error that it caused.

    Raises:
        PodiumError: the error of the run; or a bug in the user's own code. Others are raised unchanged.
    """
    try:
        yield
    except Exception as error:  # each client has its own class for what an HTTP library raises
        outer: BaseException | None = None
        found: BaseException | None = error
        while found is not None and not isinstance(found, (PodiumError, *BUGS)):
            outer, found = found, found.__cause__
        if found is None or outer is None:
            raise
        outer.__cause__ = outer.__context__ = None  # it becomes the context of `found`: no circle
        raise found from found.__cause__


class ConductorTransport:
    """Answers the requests of OpenAI clients for chat completions with runs of a conductor.

    The field `podium` of a response, and of the last chunk of a stream, has the run as plain JSON. The usage
    has all tokens of the call, and none that an earlier call has paid for. The timeout of a request, which
    clients do not have by default, is for the whole call: then the run is cancelled, and `LimitExceeded`
    raised. Tool calls are continued by the next request, which has their results, and pays only for the rest
    of the plan.

    Args:
        conductor: plans and runs each request.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`; see `ChatCall`.
        carries: whether the host's messages keep `podium["continuation"]` of an answer with tool calls, for
            `HostCall.continuation`; otherwise the transport keeps it, or the journal.
        metadata: converts a result to the field `podium`.

    Raises:
        ConfigError: `partial` is invalid. From each request: it is not for chat completions, or has an option
            that a conductor does not accept.
    """

    def __init__(
        self,
        conductor: Conductor,
        *,
        partial: Partial = "return",
        carries: bool = False,
        metadata: Callable[[Result], Mapping[str, Any]] = result_metadata,
    ) -> None:
        self._conductor = conductor
        self._partial = check_partial(partial)
        self._store = None if carries else ContinuationStore()
        self._metadata = metadata

    def client(self, library: str = "httpx") -> Any:
        """Return a client for `openai.OpenAI`.

        Args:
            library: the library that the OpenAI client uses: `httpx`, or `httpx2` since openai 3.
        """
        http = import_module(library)
        return http.Client(transport=_of(_Transport, http, "BaseTransport")(self), timeout=None)

    def async_client(self, library: str = "httpx") -> Any:
        """Return a client for `openai.AsyncOpenAI`; `library` is as for `client`."""
        http = import_module(library)
        return http.AsyncClient(
            transport=_of(_AsyncTransport, http, "AsyncBaseTransport")(self), timeout=None
        )

    def openai_client(self) -> Any:
        """Return an `openai.AsyncOpenAI` over this transport, for a host that takes one."""
        openai = import_module("openai")  # a package of the host
        http = self.async_client("httpx2" if int(openai.VERSION.partition(".")[0]) > _HTTPX else "httpx")
        return openai.AsyncOpenAI(http_client=http, base_url=BASE_URL, api_key="none", max_retries=0)

    def begin(self, request: Any, raw: bytes, host: HostCall) -> "_Call":
        """Return the call of an HTTP request with this body."""
        if request.method != "POST" or not request.url.path.endswith(_PATH):
            told = f"a conductor answers POST …{_PATH}, not {request.method} {request.url.path}"
            raise ConfigError(f"{told}: use the client for chat completions")
        asked, options = read_chat(raw), host.options
        messages = asked.read_messages() if host.messages is None else host.messages
        if host.run_name:
            options = {**options, "run_id": run_id_in(self._conductor, host.run_name, messages)}
        call = ChatCall(
            self._conductor,
            messages,
            tools=replace(asked.read_tools(), last=tuple(host.last_tools)),
            sampling=asked.read_sampling(),
            continuation=host.continuation,
            store=self._store,
            partial=host.partial or self._partial,
            options=options,
            on_event=host.on_event,
            session=host.run_name or host.session,
            is_parallel=asked.parallel_tool_calls is not False,
            timeout=request.extensions.get("timeout", {}).get("read"),
        )
        return _Call(asked=asked, call=call, host=host, metadata=self._metadata)


@dataclass(slots=True, kw_only=True)
class _Call:
    """A request that a run answers."""

    asked: ChatRequest
    call: ChatCall
    host: HostCall
    metadata: Callable[[Result], Mapping[str, Any]]

    async def whole(self) -> Mapping[str, Any]:
        """Run the call, and return the body of the response."""
        try:
            answer = await self.call.run()
        except RunWaiting as waiting:
            answer = await self._asking(waiting)
        self.host.answer = answer
        return self._writer(answer.result.run_id).whole(answer.text, self._end(answer))

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Run the call, and yield the chunks of the response; the first as soon as the run has begun."""
        writer, shown = None, self.host.shown
        async with aclosing(self.call.events(stream=True)) as events:
            async for event, text in events:
                if writer is None:  # the first event is the run's own
                    writer = self._writer(event.run_id)
                    yield writer.begin()
                if text:
                    yield writer.text(text)
                elif shown is not None and (told := shown(event)):
                    yield writer.progress(told)
        try:
            answer, rest = self.call.answer(), self.call.rest()
        except RunWaiting as waiting:
            answer, rest = await self._asking(waiting), ""
        self.host.answer = answer
        writer = writer or self._writer(answer.result.run_id)
        if rest:
            yield writer.text(rest)
        yield writer.end(self._end(answer))

    async def _asking(self, waiting: RunWaiting) -> ChatAnswer:
        """Return the tool calls that ask a person, as an answer, or raise that the run waits."""
        result = waiting.result
        asked = () if self.host.asks is None else tuple(await self.host.asks(result.run_id))
        if not asked:
            raise waiting
        return ChatAnswer(replace(result, answer="", tool_calls=asked), spent_before=self.call.spent_before)

    def _writer(self, run_id: str) -> ChatWriter:
        usage = self.asked.includes_usage
        return ChatWriter(run_id=run_id, model=self.asked.model, includes_usage=usage)

    def _end(self, answer: ChatAnswer) -> ChatEnd:
        podium = dict(self.metadata(answer.result))
        if answer.continuation is not None:
            podium["continuation"] = dict(answer.continuation)
        return ChatEnd(
            tool_calls=answer.tool_calls,
            finish_reason=answer.host_finish_reason,
            usage=_plain(answer.new_usage),
            podium=podium,
        )


def _plain(usage: Usage) -> Usage:
    """Return a usage without orchestration, for which hosts have no word: it is a part of the counts."""
    return replace(
        Usage(),
        input_tokens=usage.total_input_tokens,
        output_tokens=usage.total_output_tokens,
        cached_tokens=usage.total_cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        estimated=usage.estimated,
    )


class _Transport:
    """Answers the requests of a sync client."""

    http: Any
    """The HTTP library."""

    def __init__(self, conductor: ConductorTransport) -> None:
        self._conductor = conductor

    def handle_request(self, request: Any) -> Any:
        with _taken() as host:
            call = self._conductor.begin(request, request.read(), host)
            if not call.asked.stream:
                return self.http.Response(200, json=run_sync(call.whole))
            frames = iterate(call.frames)
            body = _of(_Frames, self.http, "SyncByteStream")(next(frames), frames)
        return self.http.Response(200, headers=_EVENTS, stream=body)


class _AsyncTransport:
    """Answers the requests of an async client."""

    http: Any

    def __init__(self, conductor: ConductorTransport) -> None:
        self._conductor = conductor

    async def handle_async_request(self, request: Any) -> Any:
        with _taken() as host:
            call = self._conductor.begin(request, await request.aread(), host)
            if not call.asked.stream:
                return self.http.Response(200, json=await call.whole())
            frames = call.frames()
            body = _of(_AsyncFrames, self.http, "AsyncByteStream")(await anext(frames), frames)
        return self.http.Response(200, headers=_EVENTS, stream=body)


@dataclass(slots=True)
class _Frames:
    """The chunks of a stream. The first is given, so that the run begins in the context of the request."""

    first: bytes
    others: Generator[bytes, None, None]

    def __iter__(self) -> Iterator[bytes]:
        yield self.first
        yield from self.others

    def close(self) -> None:
        self.others.close()


@dataclass(slots=True)
class _AsyncFrames:
    """The same for async clients."""

    first: bytes
    others: AsyncGenerator[bytes, None]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.first
        async for frame in self.others:
            yield frame

    async def aclose(self) -> None:
        await self.others.aclose()


@cache
def _of(kind: type, http: Any, base: str) -> Any:
    """Return a class for an HTTP library, whose clients check its base class."""
    return type(kind.__name__, (kind, getattr(http, base)), {"http": http})
