"""One call of a host's chat model, answered by a run of a conductor.

Messages, tools and sampling go in. An answer with tool calls, usage and sources comes out,
and pieces of its text while it is written. It knows no host.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.hosts.recorded import RecordedRun
from podium.hosts.results import (
    Partial,
    answer_sources,
    answered,
    check_partial,
    run_failed,
)
from podium.hosts.tool_continuation import (
    ContinuationStore,
    is_continued,
    read_continuation,
    write_continuation,
)
from podium.resume import PaidResults
from podium.run import Listener, RunOptions, StreamedAnswer
from podium.types import (
    AnswerDelta,
    Completion,
    Event,
    Message,
    Outcome,
    Part,
    Result,
    RunEnded,
    Sampling,
    Tools,
    read_conversation,
)
from podium.usage import Usage
from podium.workers import CallMiddleware, Request, Worker

_NO_TOOLS: Final = Tools(())


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The answer of a call."""

    result: Result
    continuation: Mapping[str, Any] | None = None
    """What the turn after the answer's tool calls continues from, as plain JSON: the host puts it into
    the message with the calls. `None` where there are no calls, or a store has it."""
    spent_before: Usage = Usage()
    """Tokens of an earlier call of this run, which the journal holds."""

    @property
    def text(self) -> str:
        """The whole text; it may be empty where there are tool calls."""
        return self.result.answer

    @property
    def tool_calls(self) -> tuple[Part, ...]:
        """Calls that the host's caller is asked to make, as OpenAI writes them."""
        return self.result.tool_calls

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        """Why the answer ended; `length` where the last step was cut off by its token limit."""
        if self.result.tool_calls:
            return "tool_calls"
        problem = self.result.problem
        return "length" if problem is not None and problem.code == "cut" else "stop"

    @property
    def usage(self) -> Usage:
        """Tokens of the planner and of all steps."""
        return self.result.usage

    @property
    def new_usage(self) -> Usage:
        """The part of `usage` that this call spent: none where the result was only read back."""
        return self.usage.beyond(self.spent_before)

    @property
    def sources(self) -> tuple[Outcome, ...]:
        """The outcomes that the answer is made of, in the order of their plan."""
        return answer_sources(self.result)


class ChatCall:
    """A call of a chat model, answered by one run. Use it for one call.

    `run` waits for the answer; `stream` yields text first. A host that also reports the steps of
    a run reads `events`.

    Args:
        conductor: the conductor that answers.
        messages: the conversation. After its question it may have calls of tools and what these
            returned: such a turn is not planned again if its continuation is found.
        tools: tools offered to the worker that writes the answer.
        sampling: how that worker writes.
        model: the model that a hosted conductor is asked as; `None` means its own.
        continuation: what the message with the latest tool calls holds: `ChatAnswer.continuation`.
        store: keeps continuations, for a host whose messages hold none; `continuation` is not
            read then.
        partial: whether an answer that lacks something is returned, or raised as `RunFailed`.
        options: further options of the run, such as `middleware` or `labels`.
        on_event: takes each event as it happens; `events` yields it later, when it is read.

    With a journal and a run id, a run that ended `failed` or `partial` in an earlier call goes on:
    see `RecordedRun`.

    Raises:
        QueryError: the messages hold no question.
        ConfigError: there is no such `partial`.
    """

    def __init__(  # noqa: PLR0913 - the facts of one call
        self,
        conductor: Conductor | HostedConductor,
        messages: Sequence[Message],
        *,
        tools: Tools = _NO_TOOLS,
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        model: str | None = None,
        continuation: object = None,
        store: ContinuationStore | None = None,
        partial: Partial = "return",
        options: RunOptions | None = None,
        on_event: Listener | None = None,
    ) -> None:
        self.conductor = conductor
        self._on_event = on_event
        self.query, self.tool_messages = read_conversation(messages)
        self.tools = tools
        self._sampling = sampling
        self._model = model
        self._store = store
        self._partial = check_partial(partial)
        self._run: RecordedRun | None = None
        self._continuation = continuation if store is None else store.find(self.query, self.tool_messages)
        self._options = options or RunOptions()
        self._run_id = ""
        self._result: Result | None = None
        self._events: list[Event] = []
        self._streamed = StreamedAnswer()

    @property
    def text(self) -> str:
        """The text that was streamed so far."""
        return self._streamed.text

    async def run(self) -> ChatAnswer:
        """Run the call and return its whole answer. Raises as `answer`, and as `Conductor.run`."""
        async with aclosing(self.events(stream=False)) as events:
            async for _ in events:
                pass
        return self.answer()

    async def stream(self) -> AsyncGenerator[str | ChatAnswer, None]:
        """Run the call; yield the text of the answer as it is written, and last the answer.

        Leaving the iteration cancels the run. Raises as `answer`, `rest` and `Conductor.run`.
        """
        async with aclosing(self.events(stream=True)) as events:
            async for _, text in events:
                if text:
                    yield text
        answer = self.answer()
        if rest := self.rest():
            yield rest
        yield answer

    async def events(self, *, stream: bool) -> AsyncGenerator[tuple[Event, str], None]:
        """Run the call; yield each event, of nested runs too, with the new text of the answer in it.

        The run begins at the first item, in the context variables of the caller. Leaving the
        iteration cancels it.

        Args:
            stream: whether anyone reads text before it is whole; if not, workers are asked for
                whole answers.

        Raises:
            ConfigError: a hosted conductor is given labels or a policy.
            PodiumError: as `Conductor.run`.
        """
        async with aclosing(self._begin(stream=stream)) as events:
            async for event in events:
                self._run_id = self._run_id or event.run_id  # the first event is the run's own
                if self._on_event is not None and self._run is None:
                    self._on_event(event)  # a hosted conductor has no listeners
                yield event, self._take(event) if event.run_id == self._run_id else ""

    def answer(self) -> ChatAnswer:
        """Return the answer, once `events` has ended.

        Raises:
            RunFailed: there is no answer, the plan waits for approval, no tool is called where one
                had to be, or the answer lacks something and `partial` is `raise`.
        """
        assert self._result is not None  # a run that ends otherwise raises
        result = answered(self._result, partial=self._partial)
        before = None if self._run is None else self._run.before
        spent = Usage() if before is None else before.usage
        if not result.tool_calls and self.tools.choice not in (None, "auto", "none"):
            told = "a tool had to be called (tool_choice), and the worker that wrote the answer"
            raise run_failed(f"{told} called none, or takes none: see `takes_tools` of the workers", result)
        if not result.tool_calls or isinstance(self.conductor, HostedConductor):
            return ChatAnswer(result, spent_before=spent)
        continuation = write_continuation(self._events, self.query)
        if self._store is None:
            return ChatAnswer(result, continuation, spent)
        self._store.keep(self.query, result.tool_calls, continuation)
        return ChatAnswer(result, spent_before=spent)

    def rest(self) -> str:
        """Return the text of the answer that was not streamed, once `events` has ended.

        Raises:
            RunFailed: the answer differs from what was streamed.
        """
        assert self._result is not None  # as above
        return self._streamed.rest(self._result)

    def _begin(self, *, stream: bool) -> AsyncGenerator[Event, None]:
        conductor, options = self.conductor, self._options
        asked = (*self.query, *self.tool_messages)
        if isinstance(conductor, HostedConductor):
            if frozenset(options.get("labels", ())) or options.get("policy") is not None:
                raise ConfigError("a hosted conductor takes neither labels nor a policy: it shows no plan")
            return conductor.stream(asked, tools=self.tools, sampling=self._sampling, model=self._model)
        middleware = options.get("middleware")
        call: RunOptions = {
            **options,
            "tools": self.tools,
            "sampling": self._sampling,
            "paid_results": self._paid_results(conductor),
            "middleware": middleware if stream else whole_answers(middleware),
        }
        self._run = RecordedRun(conductor, asked, call, on_event=self._on_event)
        return self._run.events()

    def _paid_results(self, conductor: Conductor) -> PaidResults | None:
        found = None
        if self.tool_messages:
            found = read_continuation(self._continuation, self.query, conductor.pool.names)
        is_recorded = (self._options.get("journal") or conductor.journal) is not None
        if found is None and self.tools.offered and not is_recorded:
            return PaidResults()  # has the run say by which key the next turn finds each step
        return found

    def _take(self, event: Event) -> str:
        """Take note of an event of the run, and return the text in it that is to be streamed."""
        if isinstance(event, AnswerDelta):
            return self._streamed.add(event)
        if isinstance(event, RunEnded):
            self._result = event.result
        elif self.tools.offered and is_continued(event):
            self._events.append(event)
        return ""


def whole_answers(inner: CallMiddleware | None = None) -> CallMiddleware:
    """Return a middleware that asks the workers of steps for whole answers, and leaves planners as they are.

    Args:
        inner: calls the workers; `None` calls them directly.
    """

    def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        asked = request if request.caller is None else replace(request, stream=False)
        return worker.call(asked) if inner is None else inner(worker, asked)

    return middleware
