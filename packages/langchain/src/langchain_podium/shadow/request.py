"""Copy one request for a candidate. The call of the primary is observed and not changed.

A callback handler counts what both spend. A conductor reports its totals in its last event, for all kinds of
workers; reports of models below it are then not counted again.
"""

import json
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from time import perf_counter
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from langchain_podium.cards import innermost
from langchain_podium.messages import read_usage, text_of, to_query, write_calls
from langchain_podium.workers.parts import is_graph
from podium.errors import PodiumError
from podium.types import Plan, Result
from podium.types.outcome import total_cost
from podium.usage import Usage
from podium.workers import Price
from podium_shadow import Candidate, ShadowRunner, Side, Spent, failed

LOGGER = logging.getLogger("podium")
T = TypeVar("T")

_ANSWERS = ("answer", "output", "result")
_HOW_GRAPHS_RUN = frozenset(
    {"stream_mode", "print_mode", "output_keys", "subgraphs", "version", "debug", "durability", "control"}
    | {"interrupt_before", "interrupt_after"}
)
"""Arguments of a graph's methods that control running and streaming, and are not input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSettings:
    """The settings of a shadow, for all its requests."""

    runner: ShadowRunner
    candidate: Runnable[Any, Any]
    answer: Callable[[Any], str]
    """Returns the text of an answer from an output of either side."""
    prices: Mapping[str, Price]
    config: RunnableConfig
    """The candidate's configuration."""
    is_graph: bool = False
    """Whether the primary is a LangGraph graph."""

    def for_candidate(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call that the candidate gets, too.

        Arguments that control how a graph runs and streams are left out, because the candidate is called for
        its whole answer. A graph's `context` is passed only to a graph.
        """
        if not self.is_graph:
            return dict(kwargs)
        left_out = _HOW_GRAPHS_RUN | (frozenset() if is_graph(innermost(self.candidate)) else {"context"})
        return {name: value for name, value in kwargs.items() if name not in left_out}


class WatchedRequest:
    """One request: a context manager around the primary's call. If it is not drawn, it is only passed on."""

    def __init__(
        self,
        settings: ShadowSettings,
        config: RunnableConfig | None,
        kwargs: Mapping[str, Any],
        *,
        is_drawn: bool,
    ) -> None:
        self._settings = settings
        self._config = config
        self._kwargs = settings.for_candidate(kwargs)
        self._is_drawn = is_drawn
        self._spent = UsageHandler(settings.prices)
        self._asked: list[Any] = []
        self._answered: list[Any] = []
        self._seconds = 0.0

    @property
    def config(self) -> RunnableConfig | None:
        """The caller's configuration, with a handler that counts what the primary spends."""
        return _heard(self._config, self._spent) if self._is_drawn else self._config

    def note(self, piece: T) -> T:
        """Record a copy of an input or a chunk of it, because the caller may change it later."""
        if self._is_drawn:
            try:
                copy, self._kwargs = deepcopy((piece, self._kwargs))
                self._asked.append(copy)
            except Exception:  # the primary can handle inputs that cannot be copied
                name = self._settings.runner.name
                LOGGER.info("shadow %s: a request cannot be copied", name, exc_info=True)
                self._drop("unread")
        return piece

    def noted(self, pieces: Iterable[T]) -> Iterator[T]:
        """Pass on the chunks of an input, and record them."""
        return map(self.note, pieces)

    async def anoted(self, pieces: AsyncIterable[T]) -> AsyncIterator[T]:
        """Pass on the chunks of an async input, and record them, like `noted`."""
        async for piece in pieces:
            yield self.note(piece)

    @contextmanager
    def waited(self) -> Iterator[None]:
        """Count the time of the block, in which the primary works."""
        began = perf_counter()
        try:
            yield
        finally:
            self._seconds += perf_counter() - began

    def took(self, output: T) -> T:
        """Record an answer or a chunk of it."""
        self._answered.append(output)
        return output

    def pieces(self, stream: Iterator[T]) -> Iterator[T]:
        """Pass on the chunks of an answer, and record them."""
        try:
            while True:
                with self.waited():
                    try:
                        piece = next(stream)
                    except StopIteration:
                        return
                yield self.took(piece)
        finally:
            if (close := getattr(stream, "close", None)) is not None:
                close()

    async def apieces(self, stream: AsyncIterator[T]) -> AsyncGenerator[T, None]:
        """Pass on the chunks of an async answer, and record them, like `pieces`."""
        try:
            while True:
                with self.waited():
                    try:
                        piece = await anext(stream)
                    except StopAsyncIteration:
                        return
                yield self.took(piece)
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Pass the request to the candidate, unless the caller left or a graph was only interrupted."""
        if not self._is_drawn:
            return
        if error is not None and (not isinstance(error, Exception) or _is_interrupt(error)):
            self._drop("abandoned")
            return
        try:
            self._put(error)
        except Exception:  # the caller has the answer, and must not get errors of the comparison
            name = self._settings.runner.name
            LOGGER.warning("shadow %s: a request was not compared", name, exc_info=True)
            self._drop("unread")

    def _put(self, error: BaseException | None) -> None:
        settings, seconds, spent = self._settings, self._seconds, self._spent.spent()
        asked, answer = total(self._asked), total(self._answered)
        if settings.is_graph and self._spent.returned is not None:
            answer = self._spent.returned  # the chunks may be updates, tokens, or from subgraphs
            asked = _conversation(asked, answer)

        def told() -> tuple[str, Side]:
            question = question_of(asked)
            if error is not None:
                return question, replace(failed(error), seconds=seconds, spent=spent)
            return question, Side(status="ok", answer=settings.answer(answer), seconds=seconds, spent=spent)

        settings.runner.put(told, _CandidateRequest(settings, asked, self._kwargs))

    def _drop(self, why: Literal["abandoned", "unread"]) -> None:
        self._is_drawn = False
        self._settings.runner.drop(why)


class _CandidateRequest(Candidate):
    """The same request, for the candidate."""

    def __init__(self, settings: ShadowSettings, asked: Any, kwargs: Mapping[str, Any]) -> None:
        self._settings = settings
        self._asked = asked
        self._kwargs = kwargs
        self._spent = UsageHandler(settings.prices)

    async def run(self) -> str:
        """Call the candidate."""
        config = _heard(self._settings.config, self._spent)
        output = await self._settings.candidate.ainvoke(deepcopy(self._asked), config, **self._kwargs)
        return self._settings.answer(output)

    def spent(self) -> Spent:
        """Return the spending of the call so far."""
        return self._spent.spent()


def _conversation(asked: Any, state: Any) -> Any:
    """Return a graph's input with all messages of its thread, up to the user's last one."""
    messages = state.get("messages") if isinstance(state, Mapping) else None
    last = [at for at, each in enumerate(messages or ()) if isinstance(each, HumanMessage)][-1:]
    if not messages or not last:
        return asked
    return {**(asked if isinstance(asked, Mapping) else {}), "messages": messages[: last[0] + 1]}


def question_of(asked: Any) -> str:
    """Return the question in a Runnable's input; the whole input as text if it is not a query."""
    try:
        query = to_query(asked)
    except PodiumError:
        return text_of(asked)
    if isinstance(query, Plan):
        query = query.query
    return query[-1].text if query else ""


def answer_of(output: Any) -> str:
    """Return the answer in a Runnable's output: text, the last message, or the value of a known key.

    The keys are `answer`, `output` and `result`. Tool calls of a message follow its text, as JSON.
    """
    if isinstance(output, Result):
        return output.answer
    if isinstance(output, Mapping) and "messages" not in output:
        output = next((output[key] for key in _ANSWERS if key in output), output)
    if isinstance(output, AIMessage) and output.tool_calls:
        calls = [call["function"] for call in write_calls(output)]
        return f"{output.text}{json.dumps(calls, ensure_ascii=False)}"
    return text_of(output)


def total(pieces: list[Any]) -> Any:
    """Return the sum of the chunks; if they cannot be added, the last one, as LangChain does."""
    whole = pieces[0] if pieces else None
    for piece in pieces[1:]:
        try:
            whole = whole + piece
        except TypeError:
            whole = piece
    return whole


def _heard(config: RunnableConfig | None, handler: "UsageHandler") -> RunnableConfig:
    """Return a configuration with the handler added to its own or inherited callbacks."""
    given = (config or {}).get("callbacks")
    if given is None:
        given = (var_child_runnable_config.get() or {}).get("callbacks")
    if given is None or isinstance(given, list):
        return {**(config or {}), "callbacks": [*(given or ()), handler]}
    manager = given.copy()
    manager.add_handler(handler, inherit=True)
    return {**(config or {}), "callbacks": manager}


def _is_interrupt(error: BaseException) -> bool:
    """Return whether the error is LangGraph's control flow: an interrupt, or a jump to another graph."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


@dataclass(slots=True)
class _Call:
    """One call of a model."""

    names: list[str] = field(default_factory=list)
    """The model's names: the provider's, then LangChain's."""
    usage: Usage | None = None


@dataclass(slots=True)
class _Conducted:
    """One run of a conductor."""

    run_id: str
    ended: Mapping[str, Any] | None = None
    """The last event of the run. The cost of a run that was cut off is unknown."""


class UsageHandler(BaseCallbackHandler):
    """Counts the calls, tokens and cost of one run of a Runnable."""

    run_inline = True
    ignore_agent = True
    ignore_retry = True

    def __init__(self, prices: Mapping[str, Price] | None = None) -> None:
        self._prices = dict(prices or {})
        self._parents: dict[UUID, UUID | None] = {}
        self._calls: dict[UUID, _Call] = {}
        self._conducted: dict[UUID, _Conducted] = {}
        self._first: UUID | None = None
        self.returned: Any = None
        """The return value of the outermost chain or graph; `None` until it ends successfully."""

    def spent(self) -> Spent:
        """Return the calls, tokens and cost of the run so far."""
        calls = [call for run, call in dict(self._calls).items() if not self._is_conducted(run)]
        conducted = [each for run, each in dict(self._conducted).items() if not self._is_below(run)]
        if not calls and not conducted:
            return Spent()
        run_id = conducted[0].run_id if len(conducted) == 1 else None
        ends = [each.ended for each in conducted if each.ended is not None]
        if len(ends) < len(conducted):
            return Spent(run_id=run_id)
        usages = [*(call.usage for call in calls), *(Usage(**end["usage"]) for end in ends)]
        known = [usage for usage in usages if usage is not None]
        return Spent(
            calls=len(calls) + sum(end["calls"] for end in ends),
            usage=Usage.total(known) if len(known) == len(usages) else None,
            cost=total_cost([*map(self._cost, calls), *(end["cost"] for end in ends)]),
            run_id=run_id,
        )

    def on_chain_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        """Record the parent of a run."""
        self._parents[run_id] = parent_run_id
        self._first = self._first or run_id

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the return value of the outermost run."""
        if run_id == self._first:
            self.returned = outputs

    def on_tool_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        """Record the parent of a run."""
        self._parents[run_id] = parent_run_id

    def on_chat_model_start(self, *_: Any, run_id: UUID, **told: Any) -> None:
        """Record a call."""
        self._begin(run_id, told)

    def on_llm_start(self, *_: Any, run_id: UUID, **told: Any) -> None:
        """Record a call."""
        self._begin(run_id, told)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Record the model and usage that a call reports."""
        call = self._calls.setdefault(run_id, _Call())
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            message = generation.message
            call.usage = read_usage(message.usage_metadata)
            names = [message.response_metadata.get(key) for key in ("model_name", "model")]
            call.names[:0] = [name for name in names if isinstance(name, str)]

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        """Take note of an event of a conductor's run; nested runs are counted in its steps."""
        if not name.startswith("podium_") or not isinstance(data, dict) or "run_id" not in data:
            return
        conducted = self._conducted.setdefault(run_id, _Conducted(data["run_id"]))
        if data["run_id"] == conducted.run_id and data["type"] == "run_ended":
            conducted.ended = data

    def _begin(self, run_id: UUID, told: Mapping[str, Any]) -> None:
        self._parents[run_id] = told.get("parent_run_id")
        name = (told.get("metadata") or {}).get("ls_model_name")
        self._calls[run_id] = _Call([name] if isinstance(name, str) else [])

    def _cost(self, call: _Call) -> float | None:
        price = next((self._prices[name] for name in call.names if name in self._prices), None)
        return None if price is None or call.usage is None else price.cost(call.usage)

    def _is_conducted(self, run: UUID) -> bool:
        return run in self._conducted or self._is_below(run)

    def _is_below(self, run: UUID) -> bool:
        return any(above in self._conducted for above in self._above(run))

    def _above(self, run: UUID) -> Iterator[UUID]:
        above = self._parents.get(run)
        while above is not None:
            yield above
            above = self._parents.get(above)
