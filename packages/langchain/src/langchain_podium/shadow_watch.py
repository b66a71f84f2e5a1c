"""One request that a candidate is asked too: how the primary does is watched, and nothing of it changed."""

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

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from langchain_podium.messages import text_of, to_query, write_calls
from langchain_podium.shadow_spent import SpentHandler
from podium.errors import PodiumError
from podium.types import Plan, Result
from podium.workers import Price
from podium_shadow import Beside, Candidate, Side, Spent
from podium_shadow.runner import failed

LOGGER = logging.getLogger("podium")
T = TypeVar("T")

_ANSWERS = ("answer", "output", "result")


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How the requests of one shadow are watched."""

    beside: Beside
    candidate: Runnable[Any, Any]
    answer: Callable[[Any], str]
    """Reads the outputs of both."""
    prices: Mapping[str, Price]
    config: RunnableConfig
    """The candidate's."""


class Watch:
    """What one request came to; a context manager around the primary's work on it.

    Args:
        how: whose request it is.
        config: the caller's.
        kwargs: what the call was given besides.
        timed: whether the time of the work is the request's own.
    """

    def __init__(
        self, how: How, config: RunnableConfig | None, kwargs: Mapping[str, Any], *, timed: bool = True
    ) -> None:
        self._how = how
        self._kwargs = kwargs
        self._spent = SpentHandler(how.prices)
        self._asked: list[Any] = []
        self._answered: list[Any] = []
        self._seconds = 0.0 if timed else None
        self.config = self.heard(config)
        """The caller's, with one handler more."""

    def heard(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return a config with one handler more, which counts what is spent under it."""
        return _heard(config, self._spent)

    def copies(self, value: Any) -> bool:
        """Note what is asked as it is now, before anybody changes it; say whether that can be done."""
        try:
            self._asked, self._kwargs = deepcopy(([value], self._kwargs))
        except Exception:  # whatever it holds, the primary takes it
            LOGGER.info("shadow %s: a request cannot be copied", self._how.beside.name, exc_info=True)
            self._how.beside.drop("unread")
            return False
        return True

    def noted(self, pieces: Iterable[T]) -> Iterator[T]:
        """Pass on what is asked piece by piece, and note it."""
        for piece in pieces:
            self._asked.append(piece)
            yield piece

    async def anoted(self, pieces: AsyncIterable[T]) -> AsyncIterator[T]:
        """As `noted`."""
        async for piece in pieces:
            self._asked.append(piece)
            yield piece

    def took(self, output: T, began: float) -> T:
        """Note an answer, or a piece of it, and how long it was waited for."""
        self._wait(began)
        self._answered.append(output)
        return output

    def pieces(self, stream: Iterator[T]) -> Iterator[T]:
        """Pass on an answer piece by piece, and note it."""
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
        """As `pieces`."""
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
        """Have the candidate asked; not where the caller left, or a graph is only interrupted."""
        beside, seconds = self._how.beside, self._seconds
        if error is not None and (not isinstance(error, Exception) or _is_interrupt(error)):
            self.leave()
            return
        try:
            spent, answered, asked = self._spent.spent(), self._answered, self._asked

            def told() -> tuple[str, Side]:
                question = question_of(total(asked))
                if error is not None:
                    return question, replace(failed(error), seconds=seconds, spent=spent)
                answer = self._how.answer(total(answered))
                return question, Side(status="ok", answer=answer, seconds=seconds, spent=spent)

            beside.put(told, _Asked(self._how, asked, self._kwargs))
        except Exception:  # the caller's answer is there, and this is no concern of theirs
            LOGGER.warning("shadow %s: a request was not compared", beside.name, exc_info=True)
            beside.drop("unread")

    def leave(self) -> None:
        """Count that there is no answer to compare with."""
        self._how.beside.drop("abandoned")

    def _wait(self, began: float) -> None:
        if self._seconds is not None:
            self._seconds += perf_counter() - began


class _Asked(Candidate):
    """The same request to the candidate."""

    def __init__(self, how: How, asked: list[Any], kwargs: Mapping[str, Any]) -> None:
        self._how = how
        self._asked = asked
        self._kwargs = kwargs
        self._spent = SpentHandler(how.prices)

    async def run(self) -> str:
        """Ask it."""
        config = _heard(self._how.config, self._spent)
        output = await self._how.candidate.ainvoke(deepcopy(total(self._asked)), config, **self._kwargs)
        return self._how.answer(output)

    def spent(self) -> Spent:
        """Return what it took."""
        return self._spent.spent()


def question_of(asked: Any) -> str:
    """Return the question in what a Runnable is asked, if it is one, else all of it as text."""
    try:
        query = to_query(asked)
    except PodiumError:
        return text_of(asked)
    if isinstance(query, Plan):
        query = query.query
    return query[-1].text if query else ""


def answer_of(output: Any) -> str:
    """Return the answer in what a Runnable gave: text, the last message, what is under `answer` or `output`.

    Tools that a model wants called are told as JSON, after its text.
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
    """Return what pieces come to: their sum; where they cannot be added, the last, as LangChain has it."""
    whole = pieces[0] if pieces else None
    for piece in pieces[1:]:
        try:
            whole = whole + piece
        except TypeError:
            whole = piece
    return whole


def _heard(config: RunnableConfig | None, handler: SpentHandler) -> RunnableConfig:
    """Return a config with one handler more; what a call would inherit of callbacks is kept."""
    given = (config or {}).get("callbacks")
    if given is None:
        given = (var_child_runnable_config.get() or {}).get("callbacks")
    if given is None or isinstance(given, list):
        return {**(config or {}), "callbacks": [*(given or ()), handler]}
    manager = given.copy()
    manager.add_handler(handler, inherit=True)
    return {**(config or {}), "callbacks": manager}


def _is_interrupt(error: BaseException) -> bool:
    """Say whether LangGraph only leaves a graph by it: for a person's answer, or to go elsewhere."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)
