"""`shadow`: run a candidate in parallel to a production Runnable, on a sample of its traffic."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase, RunnableSerializable
from pydantic import PrivateAttr

from langchain_podium.cards import innermost
from langchain_podium.shadow.request import ShadowSettings, WatchedRequest, answer_of
from langchain_podium.workers.parts import is_graph
from podium.aio.loops import connections_per_loop
from podium.errors import ConfigError
from podium.hosts import ConductorFace
from podium.journal import Journal, SqlJournal
from podium.workers import Price
from podium_shadow import Budget, ShadowRunner, SqlPairs, Tally

Config = RunnableConfig | None


def shadow(  # noqa: PLR0913 - one parameter for each option
    primary: Runnable[Any, Any],
    candidate: Runnable[Any, Any],
    sample: float = 0.1,
    *,
    journal: Journal | SqlPairs | str | Path | None = None,
    name: str = "shadow",
    seed: int | None = None,
    concurrency: int = 4,
    seconds: float = 120.0,
    budget: Budget | None = None,
    prices: Mapping[str, Price] | None = None,
    answer: Callable[[Any], str] = answer_of,
    config: RunnableConfig | None = None,
) -> Any:
    """Return a Runnable that calls `primary`, and passes a sample of the requests to `candidate`, too.

    The Runnable of a compiled graph is a graph of the same class.

    The candidate is called in its own thread, after the primary has answered. So the caller does not wait for
    the candidate, and gets none of its errors. Each pair of answers is recorded, with the time, calls, tokens
    and cost of both; `podium evals shadow report` compares them. If the primary is a graph, its final state
    is compared, also if the caller streams it, and the candidate gets all messages of this state up to the
    user's last one. The candidate does not get the arguments that control
    streaming and interrupts (`stream_mode`, `interrupt_before` and so on). The candidate uses the memory and
    the processors of this process.

    Args:
        primary: the Runnable in production.
        candidate: a `ConductorRunnable`, or any Runnable with the primary's input. It must not act: the
            primary has acted already.
        sample: the share of requests, from 0 to 1, drawn by the configuration's `run_id` if there is one,
            otherwise by the number of the request.
        journal: the store of the pairs: a journal in a database, its location, or `SqlPairs`; `None` uses the
            journal in the user's state directory.
        name: the name of the shadow in reports.
        seed: the seed of the draw; `None` uses a new seed in each process.
        concurrency: maximum number of concurrent candidates; further requests are dropped and counted.
        seconds: timeout of a candidate, in seconds.
        budget: the limits of candidates in this process; `None` sets no limit.
        prices: prices of models, by the provider's name of the model; `None` leaves all costs except
            conductors' unknown.
        answer: returns the text of an answer from an output of either side; the texts are compared.
        config: the candidate's configuration. The caller's callbacks, tags, metadata and thread id are not
            passed to it.

    Raises:
        ConfigError: a number is out of range, the journal has no database, or the candidate is a conductor
            with a worker that acts.
    """
    if isinstance(candidate, ConductorFace) and getattr(candidate.conductor, "acts", False):
        raise ConfigError(
            f"the candidate of shadow {name!r} would act a second time: use workers that only read"
        )
    pairs = _pairs(journal)
    connections_per_loop()  # models of both sides may share a client, and the candidate has its own loop
    runner = ShadowRunner(
        pairs, name=name, sample=sample, seed=seed, concurrency=concurrency, seconds=seconds, budget=budget
    )
    settings = ShadowSettings(
        runner=runner,
        candidate=candidate,
        answer=answer,
        prices=prices or {},
        config=_own(config, name),
        is_graph=is_graph(innermost(primary)),
    )
    return ShadowGraph.of(primary, settings) if _is_compiled(primary) else Shadow(primary, settings)


class Shadowing:
    """What a primary and its candidate have in common with each other: the store and the thread of both.

    Close it, or use it as a context manager, to end running candidates.
    """

    _settings: ShadowSettings

    @property
    def pairs(self) -> SqlPairs:
        """The store of the pairs."""
        return self._settings.runner.pairs

    @property
    def tally(self) -> Tally:
        """The counts of this hour's requests."""
        return self._settings.runner.tally

    def close(self, seconds: float = 10.0) -> bool:
        """Pass no more requests to the candidate; see `ShadowRunner.close`. The primary continues."""
        return self._settings.runner.close(seconds)

    async def aclose(self, seconds: float = 10.0) -> bool:
        """Close like `close`, without blocking the event loop."""
        return await self._settings.runner.aclose(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def _watch(self, config: Config, kwargs: Mapping[str, Any]) -> WatchedRequest:
        """Return the request to watch; one that is not drawn is only passed on."""
        run_id = (config or {}).get("run_id")
        is_drawn = self._settings.runner.draws(None if run_id is None else str(run_id))
        return WatchedRequest(self._settings, config, kwargs, is_drawn=is_drawn)


class ShadowGraph(Shadowing):
    """A graph with its candidate: a base class of the graph's own class, so that it remains such a graph."""

    @classmethod
    def of(cls, graph: Any, settings: ShadowSettings) -> Any:
        """Return a copy of a compiled graph with a candidate, which copies of the copy have, too."""
        kind = type(graph)
        own = type(kind.__name__, (cls, kind), {"__module__": kind.__module__, "_settings": settings})
        return own(**{name: value for name, value in vars(graph).items() if name != "__orig_class__"})

    def stream(self, input: Any, config: Config = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Stream the graph, which `invoke` and `batch` do, too."""
        with self._watch(config, kwargs) as watch:
            watch.note(input)
            yield from watch.pieces(super().stream(input, watch.config, **kwargs))  # type: ignore[misc]

    async def astream(self, input: Any, config: Config = None, **kwargs: Any) -> AsyncGenerator[Any, None]:  # noqa: A002
        """Stream the graph, which `ainvoke` and `astream_events` do, too."""
        with self._watch(config, kwargs) as watch:
            watch.note(input)
            stream = super().astream(input, watch.config, **kwargs)  # type: ignore[misc]
            async with aclosing(watch.apieces(stream)) as pieces:
                async for piece in pieces:
                    yield piece


class Shadow(Shadowing, RunnableBindingBase[Any, Any]):
    """The primary with its candidate; created by `shadow`."""

    _settings: ShadowSettings = PrivateAttr()

    def __init__(self, primary: Runnable[Any, Any], settings: ShadowSettings) -> None:
        super().__init__(bound=primary)
        self._settings = settings

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return `False`: a shadow has a thread."""
        return False

    def invoke(self, input: Any, config: Config = None, **kwargs: Any) -> Any:  # noqa: A002
        """Call the primary."""
        with self._watch(config, kwargs) as watch:
            watch.note(input)
            with watch.waited():
                return watch.took(self.bound.invoke(input, watch.config, **kwargs))

    async def ainvoke(self, input: Any, config: Config = None, **kwargs: Any) -> Any:  # noqa: A002
        """Call the primary."""
        with self._watch(config, kwargs) as watch:
            watch.note(input)
            with watch.waited():
                return watch.took(await self.bound.ainvoke(input, watch.config, **kwargs))

    def transform(self, input: Iterator[Any], config: Config = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Stream the primary's answer to a streamed input."""
        with self._watch(config, kwargs) as watch:
            stream = self.bound.transform(watch.noted(input), watch.config, **kwargs)
            yield from watch.pieces(stream)

    async def atransform(
        self,
        input: AsyncIterator[Any],  # noqa: A002
        config: Config = None,
        **kwargs: Any,
    ) -> AsyncGenerator[Any, None]:
        """Stream the primary's answer to a streamed input."""
        with self._watch(config, kwargs) as watch:
            stream = self.bound.atransform(watch.anoted(input), watch.config, **kwargs)
            async with aclosing(watch.apieces(stream)) as pieces:
                async for piece in pieces:
                    yield piece

    def stream(self, input: Any, config: Config = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Stream the primary's answer."""
        return self.transform(iter([input]), config, **kwargs)

    def astream(self, input: Any, config: Config = None, **kwargs: Any) -> AsyncGenerator[Any, None]:  # noqa: A002
        """Stream the primary's answer."""

        async def asked() -> AsyncIterator[Any]:
            yield input

        return self.atransform(asked(), config, **kwargs)

    batch = Runnable.batch  # each input is one request
    abatch = Runnable.abatch
    batch_as_completed = Runnable.batch_as_completed
    abatch_as_completed = Runnable.abatch_as_completed

    def astream_events(self, input: Any, config: Config = None, **kwargs: Any) -> Any:  # noqa: A002
        """Stream the primary's events; with version `v3` the candidate gets no request."""
        if kwargs.get("version") == "v3":
            return self.bound.astream_events(input, config, **kwargs)
        return RunnableSerializable.astream_events(self, input, config, **kwargs)


def _is_compiled(primary: object) -> bool:
    """Return whether an object is a graph of this process, and not one behind a client."""
    return is_graph(primary) and hasattr(primary, "channels")


def _pairs(journal: Journal | SqlPairs | str | Path | None) -> SqlPairs:
    if isinstance(journal, SqlPairs):
        return journal
    if isinstance(journal, SqlJournal):
        return SqlPairs.beside(journal)
    if isinstance(journal, Journal):
        raise ConfigError("pairs are stored in a database: give a SqlJournal, or its location")
    return SqlPairs(journal)


def _own(config: Config, name: str) -> RunnableConfig:
    """Return the candidate's configuration, with a tag and the shadow's name for traces."""
    given = config or {}
    tags, metadata = given.get("tags") or [], given.get("metadata") or {}
    return {
        **given,
        "tags": [*tags, "podium:shadow"],
        "metadata": {**metadata, "podium_shadow": name},
    }
