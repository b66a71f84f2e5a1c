"""Copy one request for a candidate. The call of the primary is observed and not changed."""

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
from copy import deepcopy
from dataclasses import dataclass, replace
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypeVar

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from langchain_podium.cards import innermost
from langchain_podium.messages import text_of, to_query, write_calls
from langchain_podium.shadow.usage import UsageHandler
from langchain_podium.workers.parts import is_graph
from podium.errors import PodiumError
from podium.types import Plan, Result
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
    """One drawn request: a context manager around the primary's call."""

    def __init__(
        self,
        settings: ShadowSettings,
        config: RunnableConfig | None,
        kwargs: Mapping[str, Any],
        *,
        timed: bool = True,
    ) -> None:
        self._settings = settings
        self._kwargs = settings.for_candidate(kwargs)
        self._spent = UsageHandler(settings.prices)
        self._asked: list[Any] = []
        self._answered: list[Any] = []
        self._seconds = 0.0 if timed else None
        self.config = self.heard(config)
        """The caller's configuration with the usage handler added."""

    def heard(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return a configuration with the usage handler added."""
        return _heard(config, self._spent)

    def copies(self, value: Any) -> bool:
        """Copy the input, because the caller may change it later; return whether it can be copied."""
        try:
            self._asked, self._kwargs = deepcopy(([value], self._kwargs))
        except Exception:  # the primary can handle inputs that cannot be copied
            LOGGER.info("shadow %s: a request cannot be copied", self._settings.runner.name, exc_info=True)
            self._settings.runner.drop("unread")
            return False
        return True

    def noted(self, pieces: Iterable[T]) -> Iterator[T]:
        """Pass on the chunks of an input, and record them."""
        for piece in pieces:
            self._asked.append(piece)
            yield piece

    async def anoted(self, pieces: AsyncIterable[T]) -> AsyncIterator[T]:
        """Pass on the chunks of an async input, and record them, like `noted`."""
        async for piece in pieces:
            self._asked.append(piece)
            yield piece

    def took(self, output: T, began: float) -> T:
        """Record an answer or a chunk of it, and the time since `began`."""
        self._wait(began)
        self._answered.append(output)
        return output

    def pieces(self, stream: Iterator[T]) -> Iterator[T]:
        """Pass on the chunks of an answer, and record them."""
        try:
            while True:
                began = perf_counter()
                try:
                    piece = next(stream)
                except StopIteration:
                    self._wait(began)
                    return
                yield self.took(piece, began)
        finally:
            if (close := getattr(stream, "close", None)) is not None:
                close()

    async def apieces(self, stream: AsyncIterator[T]) -> AsyncGenerator[T, None]:
        """Pass on the chunks of an async answer, and record them, like `pieces`."""
        try:
            while True:
                began = perf_counter()
                try:
                    piece = await anext(stream)
                except StopAsyncIteration:
                    self._wait(began)
                    return
                yield self.took(piece, began)
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """Pass the request to the candidate, unless the caller left or a graph was only interrupted."""
        runner, seconds = self._settings.runner, self._seconds
        if error is not None and (not isinstance(error, Exception) or _is_interrupt(error)):
            self.leave()
            return
        try:
            spent, asked = self._spent.spent(), self._asked
            answered = self._answered
            if self._settings.is_graph and self._spent.returned is not None:
                answered = [self._spent.returned]  # the chunks may be updates, tokens, or from subgraphs
                asked = [_conversation(total(asked), self._spent.returned)]

            def told() -> tuple[str, Side]:
                question = question_of(total(asked))
                if error is not None:
                    return question, replace(failed(error), seconds=seconds, spent=spent)
                answer = self._settings.answer(total(answered))
                return question, Side(status="ok", answer=answer, seconds=seconds, spent=spent)

            runner.put(told, _CandidateRequest(self._settings, asked, self._kwargs))
        except Exception:  # the caller has the answer, and must not get errors of the comparison
            LOGGER.warning("shadow %s: a request was not compared", runner.name, exc_info=True)
            runner.drop("unread")

    def leave(self) -> None:
        """Count the request as abandoned: the primary gave no answer."""
        self._settings.runner.drop("abandoned")

    def _wait(self, began: float) -> None:
        if self._seconds is not None:
            self._seconds += perf_counter() - began


class _CandidateRequest(Candidate):
    """The same request, for the candidate."""

    def __init__(self, settings: ShadowSettings, asked: list[Any], kwargs: Mapping[str, Any]) -> None:
        self._settings = settings
        self._asked = asked
        self._kwargs = kwargs
        self._spent = UsageHandler(settings.prices)

    async def run(self) -> str:
        """Call the candidate."""
        config = _heard(self._settings.config, self._spent)
        output = await self._settings.candidate.ainvoke(deepcopy(total(self._asked)), config, **self._kwargs)
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


def _heard(config: RunnableConfig | None, handler: UsageHandler) -> RunnableConfig:
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
