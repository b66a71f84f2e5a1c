"""The actor of a batch on a Ray cluster: it runs lines in its own process."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray

from podium.errors import ConfigError, PodiumError
from podium_server.batch.input import Form, Line, read_request
from podium_server.batch.output import Record
from podium_server.batch.runner import LineRunner
from podium_server.batch.setup import Setup
from podium_server.models import Catalogue, make_catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class SentLine:
    """A line on its way to an actor."""

    number: int
    id: str
    run_id: str
    given: Mapping[str, Any]
    form: Form
    model: str
    is_recorded: bool

    @classmethod
    def of(cls, line: Line, form: Form, *, is_recorded: bool) -> "SentLine":
        """Return a line in the form in which it is sent."""
        return cls(
            number=line.number,
            id=line.id,
            run_id=line.run_id,
            given=line.given,
            form=form,
            model=line.model.name,
            is_recorded=is_recorded,
        )

    def line(self, catalogue: Catalogue) -> Line:
        """Return the line, with a model of this process."""
        return Line(
            number=self.number,
            id=self.id,
            run_id=self.run_id,
            given=self.given,
            request=read_request(self.given, self.form),
            model=catalogue.find(self.model),
        )


@dataclass(frozen=True, slots=True)
class Broken:
    """An error that ends the batch."""

    told: str
    is_config: bool


class LineActor:
    """Runs lines. Ray calls its methods in one event loop, and makes it again after its process died."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._live: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[tuple[LineRunner, Catalogue]] = asyncio.Future()
        self._stop = asyncio.Event()
        self._is_closing = False
        self._running = set[asyncio.Task[Any]]()

    async def open(self) -> Broken | None:
        """Open the journal and the models; return what is wrong with this machine."""
        try:
            await self._open()
        except PodiumError as error:
            return _broken(error)
        return None

    async def run(self, sent: SentLine) -> Record | Broken:
        """Run a line. A line that arrives after `close` is not run."""
        if self._is_closing:
            return Broken("the batch ends", is_config=False)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            runner, catalogue = await self._open()
            return await runner.run(sent.line(catalogue), is_recorded=sent.is_recorded)
        except PodiumError as error:
            return _broken(error)
        finally:
            self._running.discard(task)

    async def close(self) -> None:
        """Cancel the running lines, whose runs are released in the journal, and close the connections."""
        self._is_closing = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running))
        self._stop.set()
        if self._live is not None:
            await asyncio.wait({self._live})

    async def _open(self) -> tuple[LineRunner, Catalogue]:
        if self._live is None:
            self._live = asyncio.create_task(self._keep_open())
        return await asyncio.shield(self._opened)

    async def _keep_open(self) -> None:
        """Keep the connections open until the actor is closed. One task opens and closes them, for anyio."""
        try:
            config, journal = self._setup.load(ray.util.get_node_ip_address())
            catalogue = make_catalogue(config, journal)
            runner = LineRunner(catalogue, journal, self._setup.run_cost)
            async with runner.opened():
                self._opened.set_result((runner, catalogue))
                await self._stop.wait()
        except PodiumError as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error)


def _broken(error: PodiumError) -> Broken:
    return Broken(str(error), isinstance(error, ConfigError))
