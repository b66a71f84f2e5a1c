"""Answers a call of a host's chat model with a run of a conductor."""

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import Any, Final, Literal

import anyio

from podium.conductor import Conductor
from podium.errors import ConfigError, LimitExceeded, WorkerFailed, unknown_options
from podium.hosts.continuation import (
    ContinuationStore,
    RecordedRun,
    continuation_names,
    is_continued,
    place_of,
    read_continuation,
    recorded_continuation,
    session_run_id,
    write_continuation,
)
from podium.hosts.results import Partial, answered, check_partial, lack_after, run_failed
from podium.run import Listener, RunOptions, StreamedAnswer
from podium.run_state import fold
from podium.run_state.paid import PaidResults
from podium.types import (
    Action,
    AnswerDelta,
    Completion,
    Constraint,
    Event,
    Message,
    Part,
    Plan,
    Result,
    RunEnded,
    RunResumed,
    RunStarted,
    Sampling,
    Tools,
)
from podium.types.messages import read_conversation, storable
from podium.usage import Usage
from podium.workers import CallMiddleware, Request, Worker

SAMPLING_OPTIONS: Final = (
    "temperature", "top_p", "max_tokens", "seed", "stop", "reasoning_effort", "response_format",
)  # fmt: skip
"""The options that `read_sampling` supports."""
_CHOICES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def read_sampling(options: Mapping[str, Any], *, of: str, takes: Sequence[str] = ()) -> Sampling:
    """Return the sampling settings of a call.

    Args:
        options: the options of the call, with OpenAI's names; options that are `None` are ignored.
        of: the name of the chat model's class, for error messages.
        takes: names of further options that a call accepts, for error messages.

    Raises:
        ConfigError: an option is not supported, or `response_format` has no JSON schema.
    """
    said = {name: value for name, value in options.items() if value is not None}
    if told := unknown_options(of, said, [*SAMPLING_OPTIONS, *takes]):
        raise ConfigError(told)
    stop = said.get("stop", ())
    return Sampling(
        temperature=said.get("temperature"),
        top_p=said.get("top_p"),
        max_tokens=said.get("max_tokens"),
        seed=said.get("seed"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        effort=said.get("reasoning_effort"),
        constraint=_constraint(said.get("response_format")),
    )


def read_tools(offered: Sequence[Part] | None, choice: object = None) -> Tools:
    """Return the tools that a call offers.

    Args:
        offered: functions in OpenAI's form.
        choice: `auto`, `none`, `required` or `any`; `True` means `required`; the name of a tool, or a
            function in OpenAI's form; `None` or `False` means that the model decides.

    Raises:
        ConfigError: the choice is a tool that is not offered.
    """
    tools = tuple(offered or ())
    if choice is None or choice is False:
        return Tools(tools)
    if choice is True:
        return Tools(tools, "required")
    if isinstance(choice, str) and choice in _CHOICES:
        return Tools(tools, _CHOICES[choice])
    name: object = choice
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
    names = [tool["function"]["name"] for tool in tools]
    if name not in names:
        told = f"the tools are {', '.join(names)}" if names else "there are no tools"
        raise ConfigError(f"tool_choice {choice!r:.80} is not an offered tool: {told}")
    return Tools(tools, {"type": "function", "function": {"name": name}})


def _constraint(form: object) -> Constraint | None:
    if form is None:
        return None
    if isinstance(form, Mapping) and form.get("type") == "json_schema":
        schema = form.get("json_schema")
        if isinstance(schema, Mapping) and isinstance(schema.get("schema"), Mapping):
            return Constraint("json", schema["schema"])
    shape = '{"type": "json_schema", "json_schema": {"name": …, "schema": …}}'
    raise ConfigError(f"response_format is {form!r:.80}: write {shape}")


def text_completion(texts: Sequence[str], gaps: Sequence[str], worker: str) -> Completion | None:
    """Return the text of an answer and what it lacks; `None` for nothing; `gaps` are parts without text."""
    text = storable("\n\n".join(filter(str.strip, texts)))
    if not gaps:
        return Completion(text) if text else None
    told = gaps_told(gaps)
    if not text:
        raise WorkerFailed(f"worker {worker!r} returned no text; {told}", maybe_paid=True)
    return Completion(f"{text}\n\n[{told}]", missing=told)


def gaps_told(gaps: Sequence[str]) -> str:
    """Return the sentence that names the parts of an answer that are not text."""
    return storable(f"not passed on, since the output of a step is text: {', '.join(gaps)}")


def encoded_size(data: str) -> str:
    """Return the decoded size of base64 data, as in `1,024 bytes`."""
    return f"{len(data) * 3 // 4 - data.count('='):,} bytes"


_NO_TOOLS: Final = Tools(())


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """The answer of a call."""

    result: Result
    continuation: Mapping[str, Any] | None = None
    """The plan and the outcomes, as plain JSON, from which the turn after the tool calls continues.

    The host stores them in the message with the tool calls. `None` if there are no tool calls, or if a
    `ContinuationStore` stores the continuation.
    """
    spent_before: Usage = Usage()
    """Tokens that earlier calls of this run used, from the journal."""
    lack: str = ""
    """The end of the text of an incomplete answer, as `lack_after` returns it."""

    @property
    def text(self) -> str:
        """The whole text; it may be empty if there are tool calls."""
        return self.result.answer + self.lack

    @property
    def tool_calls(self) -> tuple[Part, ...]:
        """Tool calls for the host's caller to execute, in OpenAI's form."""
        return self.result.tool_calls

    @property
    def finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        """Why the answer ended; `length` means that the answer was cut at the token limit of its worker."""
        if self.result.tool_calls:
            return "tool_calls"
        problem = self.result.problem
        return "length" if problem is not None and problem.code == "cut" else "stop"

    @property
    def host_finish_reason(self) -> Literal["stop", "length", "tool_calls"]:
        """The finish reason for hosts, which have no other value for an incomplete answer than `length`."""
        is_short = self.finish_reason == "stop" and self.result.status == "partial"
        return "length" if is_short else self.finish_reason

    @property
    def usage(self) -> Usage:
        """Tokens of the planner and of all steps."""
        return self.result.usage

    @property
    def new_usage(self) -> Usage:
        """The part of `usage` that this call used; 0 if the result is from the journal."""
        return self.usage.beyond(self.spent_before)


class ChatCall:
    """One call of a chat model, which one run answers. An instance is used for one call.

    `run` returns the answer; `stream` yields pieces of its text first; `events` also yields the events
    of the run.

    Args:
        conductor: the conductor.
        messages: the conversation. It may have tool calls and their results after the question. If the
            continuation of these tool calls is found, the planner writes no new plan.
        tools: tools for the steps whose workers support tools.
        sampling: sampling settings for the worker that writes the answer.
        plan: the plan that is run for the conversation; `None` means that the planner writes one.
        continuation: `ChatAnswer.continuation` from the message with the latest tool calls.
        store: stores continuations, for hosts whose messages cannot contain them; `continuation` is
            then ignored. What the store lacks is read from the journal, where the run is found by its
            session, or else by its question, and by the ids of its tool calls.
        partial: whether an incomplete answer raises `RunFailed` (`raise`), or is returned (`return`): its
            text ends with the sentence `(Not complete: …)`. Structured text cannot, so it raises as well.
            `None` returns each answer unchanged, for a caller that tells its status in another way.
        options: further options of the run, such as `middleware` or `labels`.
        on_event: called with each event as it happens, before `events` yields it.
        session: the host's id of the session or thread; see `RecordedRun`.
        is_parallel: whether the answer may have several tool calls; otherwise they come one by one.
        timeout: seconds after which the run is cancelled and `LimitExceeded` raised, with the actions of the
            run; `None` for no limit beside those of the conductor, after which a run may be incomplete.

    With a journal and a run id, a run that was `failed` or `partial` in an earlier call is resumed:
    see `RecordedRun`.

    Raises:
        QueryError: the messages have no question.
        ConfigError: `partial` is invalid.
    """

    def __init__(  # noqa: PLR0913 - the facts of one call
        self,
        conductor: Conductor,
        messages: Sequence[Message],
        *,
        tools: Tools = _NO_TOOLS,
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        plan: Plan | None = None,
        continuation: object = None,
        store: ContinuationStore | None = None,
        partial: Partial | None = "return",
        options: RunOptions | None = None,
        on_event: Listener | None = None,
        session: str | None = None,
        is_parallel: bool = True,
        timeout: float | None = None,
    ) -> None:
        self.conductor = conductor
        self._timeout = timeout
        self._is_parallel = is_parallel
        self._session = session
        self._on_event = on_event
        self.query, self.tool_messages = read_conversation(messages)
        self._conversation = (*self.query, *self.tool_messages)
        self.tools = tools
        self._sampling = sampling
        self._asked = self._conversation if plan is None else replace(plan, query=self._conversation)
        self._store = store
        self._partial = None if partial is None else check_partial(partial)
        self._run: RecordedRun | None = None
        self._continuation = (
            continuation if store is None else store.find(continuation_names(self._conversation))
        )
        self._options = options or RunOptions()
        self._result: Result | None = None
        self._events: list[Event] = []
        self._streamed = StreamedAnswer()
        self._spent = Usage()

    @property
    def text(self) -> str:
        """The text that was streamed so far."""
        return self._streamed.text

    async def run(self) -> ChatAnswer:
        """Run the call and return its answer. `answer` and `Conductor.run` describe the exceptions."""
        async with aclosing(self.events(stream=False)) as events:
            async for _ in events:
                pass
        return self.answer()

    async def stream(self) -> AsyncGenerator[str | ChatAnswer, None]:
        """Run the call; yield pieces of the answer's text as they are written, and at the end the answer.

        Leaving the iteration cancels the run. `answer`, `rest` and `Conductor.run` describe the exceptions.
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
        """Run the call; yield each event, also of nested runs, and the new text of the answer in this event.

        The run starts with the first item, with the caller's context variables. Leaving the
        iteration cancels it.

        Args:
            stream: whether the caller reads the text while it is written; otherwise workers are called
                without streaming.

        Raises:
            LimitExceeded: the run took longer than `timeout`.
            PodiumError: see `Conductor.run`.
        """
        await self._read_journal()
        middleware = self._options.get("middleware")
        options: RunOptions = {
            **self._options,
            "tools": self.tools,
            "sampling": self._sampling,
            "paid_results": self._paid_results(),
            "middleware": middleware if stream else whole_answers(middleware),
        }
        self._run = RecordedRun(
            self.conductor,
            self._asked,
            options,
            on_event=self._on_event,
            session=self._session,
            refresh=self._partial == "raise",
        )
        run_id, is_new = "", False
        run = self._run.events()
        async with aclosing(run if self._timeout is None else _within(self._timeout, run)) as events:
            async for event in events:
                if not run_id:  # the first event is the run's own
                    run_id, is_new = event.run_id, isinstance(event, RunStarted)
                if self.tools.offered and is_continued(event):
                    self._events.append(event)
                is_own = event.run_id == run_id
                if is_own and isinstance(event, RunEnded):
                    self._result = event.result
                elif is_own and isinstance(event, RunResumed):
                    self._spent = await self._spent_until(event)
                yield event, self._streamed.add(event) if is_own and isinstance(event, AnswerDelta) else ""
        if self.tools.offered and not is_new:
            own, nested = await self._recorded(run_id)
            self._events = [*own, *chain.from_iterable(nested)]

    def answer(self) -> ChatAnswer:
        """Return the answer, after `events` has ended.

        Raises:
            RunFailed: there is no answer, a required tool call is missing, or the answer is incomplete and
                `partial` is `raise`.
            RunWaiting: the run waits for approval.
        """
        assert self._result is not None  # a run without a result raises
        if not self._is_parallel:
            self._result = replace(self._result, tool_calls=self._result.tool_calls[:1])
        is_structured = self._partial is not None and self._sampling.constraint is not None
        needs_call = self.tools.choice not in (None, "auto", "none") and not self._result.tool_calls
        strict = is_structured or needs_call  # an incomplete answer may have been offered no tools
        result = answered(self._result, partial="raise" if strict else self._partial or "return")
        spent = self.spent_before
        if needs_call:
            told = "tool_choice requires a tool call, and the worker that wrote the answer"
            raise run_failed(f"{told} called no tool, or supports none (`takes_tools`)", result)
        if not result.tool_calls:
            return ChatAnswer(result, spent_before=spent, lack=self._lack(result))
        continuation = write_continuation(self._events, self.query)
        if self._store is None:
            return ChatAnswer(result, continuation, spent)
        self._store.keep(continuation_names(self._conversation, result.tool_calls), continuation)
        return ChatAnswer(result, spent_before=spent)

    @property
    def spent_before(self) -> Usage:
        """The tokens that earlier calls of the run used."""
        before = None if self._run is None else self._run.before
        return self._spent if before is None else before.usage

    def rest(self) -> str:
        """Return the text of the answer that was not streamed, after `events` has ended.

        Raises:
            RunFailed: the answer differs from the streamed text.
        """
        assert self._result is not None  # as above
        return self._streamed.rest(self._result) + self._lack(self._result)

    def _lack(self, result: Result) -> str:
        return "" if self._partial is None else lack_after(result)

    async def _read_journal(self) -> None:
        """Read a continuation that the store lacks, and name the run so that its next turn finds it."""
        conductor, options = self.conductor, self._options
        if self._store is None or not self.tools.offered:
            return
        journal = options.get("journal") or conductor.journal
        if journal is None:
            return
        place = place_of(conductor, self._session, self.query)
        if self._continuation is None and self.tool_messages:
            self._continuation = await recorded_continuation(journal, place, self.query, self.tool_messages)
        if self._session is None and not options.get("run_id"):
            self._options = {**options, "run_id": session_run_id(place)}

    async def _spent_until(self, resumed: RunResumed) -> Usage:
        """Return the tokens of a run until it was resumed."""
        own, nested = await self._recorded(resumed.run_id)
        before = takewhile(lambda event: event != resumed, own)  # it may be committed later
        return fold(before, nested).result().usage

    async def _recorded(self, run_id: str) -> tuple[list[Event], list[list[Event]]]:
        """Return the events of a run of the journal, and of its nested runs."""
        journal = self._options.get("journal") or self.conductor.journal
        assert journal is not None  # the run is from it
        async with journal:
            return [entry.event for entry in await journal.read(run_id)], await journal.nested(run_id)

    def _paid_results(self) -> PaidResults | None:
        names = self.conductor.pool.names
        found = read_continuation(self._continuation, self._conversation, names, self.tools)
        is_recorded = (self._options.get("journal") or self.conductor.journal) is not None
        if found is None and self.tools.offered and not is_recorded:
            return PaidResults()  # makes the run compute the keys with which the next turn finds its steps
        return found


async def _within(seconds: float, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """Yield the events of a run, for so many seconds at most."""
    heard = list[Event]()  # for the actions of a run that is stopped
    end = time.monotonic() + seconds
    async with aclosing(events):
        while True:
            with anyio.move_on_after(max(0.0, end - time.monotonic())) as scope:
                event = await anext(events, None)
            if scope.cancelled_caught:
                error = LimitExceeded("seconds", f"the run took longer than the {seconds:g} s of its timeout")
                error.actions = actions_in(heard)
                raise error
            if event is None:
                return
            heard.append(event)
            yield event


def actions_in(events: Sequence[Event]) -> tuple[Action, ...]:
    """Return the actions that a run, or a run nested in it, has begun; the run's own event is the first."""
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    own, *nested = runs.values() or ([],)
    return fold(own, nested).result().actions if own and isinstance(own[0], RunStarted) else ()


def whole_answers(inner: CallMiddleware | None = None) -> CallMiddleware:
    """Return a middleware that calls the workers of steps without streaming."""

    def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        asked = request if request.caller is None else replace(request, stream=False)
        return worker.call(asked) if inner is None else inner(worker, asked)

    return middleware
