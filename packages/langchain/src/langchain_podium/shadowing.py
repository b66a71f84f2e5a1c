"""`shadow`: a Runnable stays in production while another runs beside it on a sample of its traffic."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase, RunnableSerializable
from pydantic import PrivateAttr

from langchain_podium.shadow_batch import Batch
from langchain_podium.shadow_clients import shares_client
from langchain_podium.shadow_watch import How, Watch, answer_of
from podium.errors import ConfigError
from podium.journal import Journal, SqlJournal
from podium.workers import Price
from podium_shadow import Beside, Budget, Pairs, SqlPairs, Tally

Config = RunnableConfig | None


def shadow(  # noqa: PLR0913 - one for each bound and seam
    primary: Runnable[Any, Any],
    candidate: Runnable[Any, Any],
    sample: float = 0.1,
    *,
    journal: Journal | Pairs | str | Path | None = None,
    name: str = "shadow",
    seed: int | None = None,
    concurrency: int = 4,
    seconds: float = 120.0,
    budget: Budget | None = None,
    prices: Mapping[str, Price] | None = None,
    answer: Callable[[Any], str] = answer_of,
    config: RunnableConfig | None = None,
) -> "Shadow":
    """Return a Runnable that does as `primary` does, and asks `candidate` too on a sample of the requests.

    The candidate is asked once the primary has answered, in a thread of its own: it never
    delays the caller, nor fails them. Each pair of answers is recorded, with what both took;
    `podium shadow report` compares them. It shares this process's memory and processors.

    Args:
        primary: what is in production.
        candidate: a `ConductorRunnable`, or any Runnable that takes what the primary takes.
        sample: the share of requests, from 0 to 1; the draw goes by the config's `run_id`
            where there is one, else by how many requests came before.
        journal: where pairs are recorded: a journal in a database, its place, or `MemoryPairs`
            for tests; `None` is the journal in the user's state directory.
        name: by which it is reported.
        seed: of the draw; `None` draws anew in each process.
        concurrency: candidates that run at the same time; what comes meanwhile is dropped, and counted.
        seconds: the longest a candidate may take.
        budget: what candidates may spend in this process; `None` sets no limit.
        prices: of models, by the name their provider answers with; `None` leaves the cost of
            what is no conductor unknown.
        answer: reads the outputs of both as text, which is what is compared.
        config: the candidate's. Nothing of the caller's reaches it: no callbacks, tags, metadata
            or thread id.

    Raises:
        ConfigError: a number is none, the journal has no database, or both have models that
            share an HTTP client.
    """
    pairs = _pairs(journal)
    if shares_client(primary, candidate):
        raise ConfigError(
            "the primary and the candidate share an HTTP client, whose connections belong to one event loop, "
            "and the candidate has a loop of its own: give its models a client of their own, "
            "as in ChatOpenAI(..., http_async_client=httpx.AsyncClient())"
        )
    beside = Beside(
        pairs, name=name, sample=sample, seed=seed, concurrency=concurrency, seconds=seconds, budget=budget
    )
    how = How(
        beside=beside, candidate=candidate, answer=answer, prices=prices or {}, config=_own(config, name)
    )
    return Shadow(primary, how)


class Shadow(RunnableBindingBase[Any, Any]):
    """What `shadow` returns. Close it, or use it as a context manager, to have candidates that run end."""

    _how: How = PrivateAttr()

    def __init__(self, primary: Runnable[Any, Any], how: How) -> None:
        super().__init__(bound=primary)
        self._how = how

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Say that it cannot be: it has a thread."""
        return False

    @property
    def pairs(self) -> Pairs:
        """Where pairs are recorded."""
        return self._how.beside.pairs

    @property
    def tally(self) -> Tally:
        """What became of the requests of this hour."""
        return self._how.beside.tally

    def close(self, seconds: float = 10.0) -> bool:
        """Ask the candidate no more; the primary goes on as before.

        Args:
            seconds: how long candidates that run are waited for; they are then cancelled, and counted.

        Returns:
            Whether all have ended; code that neither returns nor can be cancelled goes on.
        """
        return self._how.beside.close(seconds)

    async def aclose(self, seconds: float = 10.0) -> bool:
        """As `close`, without holding up the event loop."""
        return await self._how.beside.aclose(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def invoke(self, input: Any, config: Config = None, **kwargs: Any) -> Any:  # noqa: A002
        """Do as the primary does; as do the methods below."""
        watch = self._drawn(config, kwargs, input)
        if watch is None:
            return self.bound.invoke(input, config, **kwargs)
        with watch:
            began = perf_counter()
            return watch.took(self.bound.invoke(input, watch.config, **kwargs), began)

    async def ainvoke(self, input: Any, config: Config = None, **kwargs: Any) -> Any:  # noqa: A002
        """Answer."""
        watch = self._drawn(config, kwargs, input)
        if watch is None:
            return await self.bound.ainvoke(input, config, **kwargs)
        with watch:
            began = perf_counter()
            return watch.took(await self.bound.ainvoke(input, watch.config, **kwargs), began)

    def stream(self, input: Any, config: Config = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Answer piece by piece."""
        watch = self._drawn(config, kwargs, input)
        if watch is None:
            return self.bound.stream(input, config, **kwargs)
        return _pieces(watch, lambda: self.bound.stream(input, watch.config, **kwargs))

    def astream(self, input: Any, config: Config = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Answer piece by piece."""
        watch = self._drawn(config, kwargs, input)
        if watch is None:
            return self.bound.astream(input, config, **kwargs)
        return _apieces(watch, lambda: self.bound.astream(input, watch.config, **kwargs))

    def transform(self, input: Iterator[Any], config: Config = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Answer what comes piece by piece."""
        watch = self._drawn(config, kwargs)
        if watch is None:
            return self.bound.transform(input, config, **kwargs)
        return _pieces(watch, lambda: self.bound.transform(watch.noted(input), watch.config, **kwargs))

    def atransform(
        self,
        input: AsyncIterator[Any],  # noqa: A002
        config: Config = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Answer what comes piece by piece."""
        watch = self._drawn(config, kwargs)
        if watch is None:
            return self.bound.atransform(input, config, **kwargs)
        return _apieces(watch, lambda: self.bound.atransform(watch.anoted(input), watch.config, **kwargs))

    def batch(
        self, inputs: list[Any], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[Any]:
        """Answer many; each is a request of its own."""
        batch = Batch(self._how, inputs, config, kwargs)
        with batch:
            return batch.took(
                self.bound.batch(inputs, batch.config, return_exceptions=return_exceptions, **kwargs)
            )

    async def abatch(
        self, inputs: list[Any], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> list[Any]:
        """Answer many; each is a request of its own."""
        batch = Batch(self._how, inputs, config, kwargs)
        with batch:
            return batch.took(
                await self.bound.abatch(inputs, batch.config, return_exceptions=return_exceptions, **kwargs)
            )

    def batch_as_completed(
        self, inputs: Sequence[Any], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> Iterator[tuple[int, Any]]:
        """Answer many, each as soon as it is there."""
        batch = Batch(self._how, inputs, config, kwargs)
        with batch:
            for index, output in self.bound.batch_as_completed(  # type: ignore[call-overload]  # of two values
                inputs,
                batch.config,
                return_exceptions=return_exceptions,
                **kwargs,
            ):
                batch.end(index, output)
                yield index, output

    async def abatch_as_completed(
        self, inputs: Sequence[Any], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> AsyncIterator[tuple[int, Any]]:
        """Answer many, each as soon as it is there."""
        batch = Batch(self._how, inputs, config, kwargs)
        with batch:
            async for index, output in self.bound.abatch_as_completed(  # type: ignore[call-overload]
                inputs,
                batch.config,
                return_exceptions=return_exceptions,
                **kwargs,
            ):
                batch.end(index, output)
                yield index, output

    def astream_events(self, input: Any, config: Config = None, **kwargs: Any) -> Any:  # noqa: A002
        """Tell the primary's events; of those of version `v3` the candidate is not asked."""
        if kwargs.get("version") == "v3":
            return self.bound.astream_events(input, config, **kwargs)
        return RunnableSerializable.astream_events(self, input, config, **kwargs)

    def _drawn(self, config: Config, kwargs: Mapping[str, Any], *asked: Any) -> Watch | None:
        """Return what watches a request; `None` where it is not of the sample."""
        run_id = (config or {}).get("run_id")
        if not self._how.beside.draws(None if run_id is None else str(run_id)):
            return None
        watch = Watch(self._how, config, kwargs)
        return watch if not asked or watch.copies(asked[0]) else None


def _pieces(watch: Watch, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    with watch:
        yield from watch.pieces(begin())


async def _apieces(watch: Watch, begin: Callable[[], AsyncIterator[Any]]) -> AsyncGenerator[Any, None]:
    with watch:
        async with aclosing(watch.apieces(begin())) as pieces:
            async for piece in pieces:
                yield piece


def _pairs(journal: Journal | Pairs | str | Path | None) -> Pairs:
    if isinstance(journal, Pairs):
        return journal
    if isinstance(journal, SqlJournal):
        return SqlPairs.beside(journal)
    if isinstance(journal, Journal):
        raise ConfigError("pairs are recorded in a database: give a SqlJournal, its place, or MemoryPairs")
    return SqlPairs(journal)


def _own(config: Config, name: str) -> RunnableConfig:
    """Return the candidate's config, which says in traces whose run it is."""
    given = config or {}
    tags, metadata = given.get("tags") or [], given.get("metadata") or {}
    return {
        **given,
        "tags": [*tags, "podium:shadow"],
        "metadata": {**metadata, "podium_shadow": name},
    }
