"""Runs lines of a batch on a Ray cluster: the command sends them to actors, each in its own process."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

import anyio

from podium.config import load_config
from podium.errors import ConfigError, JournalError, PodiumError, RunHeld, install_hint
from podium.journal import SqlJournal
from podium_server import __version__
from podium_server.background_tasks import beside
from podium_server.batch.input import Line
from podium_server.batch.results import Record
from podium_server.batch.runner import LineRunner
from podium_server.models import Catalogue, make_catalogue

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else a local cluster sends statistics of its use
try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as missing:
    raise ConfigError(
        f"--ray needs Ray, which is not installed: {install_hint('podium-server[ray]')}"
    ) from missing

_LINES = 32  # for which an actor is started, up to one for each core: the start takes seconds of a core
_OPTIONS = {
    "num_cpus": 0.1,  # an actor waits for models most of the time
    "max_restarts": -1,
    "max_task_retries": 10,  # of a line, after the process of its actor died; the journal continues its run
    "scheduling_strategy": "SPREAD",
}
_EARLIER_LOOKS = 300  # each after 0.2 s, for the end of the actors of an earlier command that is gone
_REMEDY = "start one with `ray start --head`, or write `--ray local`"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # of HTTP/2, with no settings


class RayFailed(PodiumError):
    """The Ray cluster cannot run the lines of a batch."""

    code = "ray"


@dataclass(frozen=True, slots=True)
class Setup:
    """What all processes of a batch must have in common, and the machine of the command."""

    config: Path
    machine: str
    run_cost: float | None
    same: Sequence[tuple[str, str, str]]
    """What each machine must have, from `same_as`."""

    def load(self, machine: str) -> tuple[Catalogue, SqlJournal]:
        """Return the models and the journal, in a process of a machine."""
        for (what, here, remedy), (_, there, _) in zip(same_as(self.config), self.same, strict=True):
            if here != there:
                told = f"the machine {machine} has the {what} {here}, and the command has {there}"
                raise ConfigError(f"{told}: {remedy}")
        config = load_config(self.config)
        journal = config.journal()
        assert journal is not None  # the command has one
        if machine != self.machine and not str(journal.url).startswith("postgres"):
            told = f"an SQLite journal is a file of {self.machine}, and the cluster also has {machine}"
            raise ConfigError(f"{told}: set `url` in [journal] to a PostgreSQL database")
        return make_catalogue(config, journal), journal


def same_as(config: Path) -> Iterator[tuple[str, str, str]]:
    """Yield what each machine must have: its name, its value, and the remedy."""
    yield "podium-server", __version__, "install the same version"  # first: another may not read the config
    journal = load_config(config).journal()
    yield f"{config} of hash", sha256(config.read_bytes()).hexdigest(), "give each machine the same file"
    url = str(journal and journal.url)  # without the password
    yield "journal", url, "set the same variables and paths on each machine"


class LineActor:
    """Runs lines. Ray calls its methods in one event loop, and makes it again after its process died."""

    def __init__(self, setup: Setup) -> None:
        self._opened: asyncio.Future[tuple[LineRunner, Catalogue]] = asyncio.Future()
        self._stop = asyncio.Event()
        self._running = set[Any]()
        self._live = asyncio.create_task(self._keep_open(setup))

    async def open(self) -> None:
        """Wait until the journal and the models are open; raise what is wrong with this machine."""
        await asyncio.shield(self._opened)

    async def run(self, sent: Mapping[str, Any], *, is_recorded: bool) -> Record:
        """Run a line. A line that arrives after `close` is not run."""
        if self._stop.is_set():
            raise JournalError("the batch ends")
        self._running.add(task := asyncio.current_task())
        try:
            runner, catalogue = await asyncio.shield(self._opened)
            line = Line(**{**sent, "model": catalogue.find(sent["model"])})
            return await runner.run(line, is_recorded=is_recorded)
        finally:
            self._running.discard(task)

    async def close(self) -> None:
        """Cancel the running lines, whose runs are released in the journal, and close the connections."""
        self._stop.set()
        await asyncio.wait({self._live})

    async def _keep_open(self, setup: Setup) -> None:
        """Keep the connections open until the actor is closed. One task opens and closes them, for anyio."""
        try:
            catalogue, journal = setup.load(ray.util.get_node_ip_address())
            runner = LineRunner(catalogue, journal, setup.run_cost)
            async with runner.opened():
                self._opened.set_result((runner, catalogue))
                await self._stop.wait()
                for task in self._running:
                    task.cancel()
                if self._running:
                    await asyncio.wait(set(self._running))
        except Exception as error:  # whatever prevents the start is raised to those who wait for it
            if self._opened.done():
                raise
            self._opened.set_exception(error)


@dataclass(eq=False)
class OnRay:
    """Runs lines in the actors of a Ray cluster. The budget and the files stay in this process."""

    address: str
    name: str
    config: Path
    run_cost: float | None
    concurrency: int
    note: Callable[[str], None]
    _ready: list[Any] = field(default_factory=list, init=False)
    _places: asyncio.Queue[Any] = field(default_factory=asyncio.Queue, init=False)
    """The free places in actors that have started, or the errors of those that cannot start."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Connect to the cluster, and keep the actors in the block."""
        with _connected(self.address):
            await self._wait_for_earlier()
            machine, config = ray.util.get_node_ip_address(), self.config.absolute()
            setup = Setup(config, machine, self.run_cost, tuple(same_as(config)))
            cores = int(ray.cluster_resources().get("CPU", 0)) or self.concurrency  # 0: the cluster grows
            lines = ceil(self.concurrency / (count := min(ceil(self.concurrency / _LINES), cores)))
            kind = ray.remote(**_OPTIONS, max_concurrency=2 * lines)(LineActor)
            actors = [kind.options(name=f"{self.name}:{each}").remote(setup) for each in range(count)]
            try:
                async with beside(self._tell, *(partial(self._open, actor, lines) for actor in actors)):
                    yield
            finally:
                with anyio.move_on_after(20.0, shield=True):
                    for closed in [actor.close.remote() for actor in self._ready]:
                        with suppress(RayError):  # it is killed next
                            await closed
                for actor in actors:
                    ray.kill(actor)

    async def run(self, line: Line, *, is_recorded: bool) -> Record:
        """Run a line in an actor; see `RunsLines.run`."""
        place = await self._places.get()
        try:
            if isinstance(place, PodiumError):
                raise place
            sent = {each.name: getattr(line, each.name) for each in fields(line)}
            sent["model"] = line.model.name  # an actor has its own models
            record: Record = await _answer(place.run.remote(sent, is_recorded=is_recorded))
        finally:
            self._places.put_nowait(place)
        return record

    async def _open(self, actor: Any, lines: int) -> None:
        """Wait until an actor can run lines. So an actor for which the cluster has no place gets none."""
        place = actor
        try:
            await _answer(actor.open.remote())
            self._ready.append(actor)
        except PodiumError as error:
            place = error
        for _ in range(lines):
            self._places.put_nowait(place)

    async def _tell(self) -> None:
        """Tell the user what an actor needs, if none has started after 20 s."""
        await anyio.sleep(20.0)
        if not self._ready:
            self.note("podium: the actors wait for a place in the Ray cluster: each needs 0.1 CPUs")

    async def _wait_for_earlier(self) -> None:
        """Wait until Ray has ended the actors of an earlier command that was killed."""
        for _ in range(_EARLIER_LOOKS):
            if not any(name.startswith(f"{self.name}:") for name in ray.util.list_named_actors()):
                return
            await anyio.sleep(0.2)
        raise RunHeld("another command runs this batch on this cluster: wait, or choose another --name")


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """Connect to a cluster; `local` starts one on this machine, which ends with the block."""
    _check_address(address)
    options = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, namespace="podium-batch", log_to_driver=False, logging_level="ERROR", **options)
    except (Exception, SystemExit) as error:  # Ray has no common class, and exits if no cluster answers
        why = "it does not answer" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
        told = f"the Ray cluster {address!r} cannot be used: {why}"
        raise ConfigError(f"{told}: {_REMEDY}; if it asks for a token, set RAY_AUTH_MODE=token") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Greet the server of an address, which answers at once; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # `auto`, `local`, or what Ray itself refuses
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 5.0) as sock, suppress(ConnectionError):
            sock.sendall(_GREETING)
            sock.recv(1)  # a server that wants TLS may close the connection
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no Ray cluster answers at {address!r}: {_REMEDY}") from error


async def _answer(reference: Any) -> Any:
    """Return the answer of an actor."""
    try:
        return await reference
    except RayTaskError as error:
        if isinstance(error.cause, PodiumError):
            raise error.cause from None
        raise  # a bug of a worker or planner
    except RayError as error:
        told = f"an actor of the Ray cluster failed: {type(error).__name__}: {error}"
        remedy = "the same command continues; each machine needs podium-server[ray] and the same Python"
        raise RayFailed(f"{told}: {remedy}") from error
