"""Runs lines of a batch on a Ray cluster."""

import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import anyio

from podium.errors import ConfigError, JournalError, PodiumError, RunHeld, install_hint
from podium_server.background_tasks import beside
from podium_server.batch.asked import Asked
from podium_server.batch.input import Form, Line
from podium_server.batch.output import Record
from podium_server.batch.setup import Setup, setup_of

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else a local cluster sends statistics of its use
try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as missing:
    raise ConfigError(f"--ray needs Ray, which is not installed: {install_hint('server[ray]')}") from missing

from podium_server.batch.ray_actor import Broken, LineActor, SentLine

_NAMESPACE = "podium-batch"
_LINES = 32
"""Lines that an actor runs at the same time."""
_CPUS = 0.1
"""CPUs that an actor reserves: it waits for models most of the time."""
_REPEATS = 10
"""How often a line is sent again after the process of its actor died. The journal continues its run."""
_START_SECONDS = 20.0
"""After this time without an actor, the user is told what the cluster needs."""
_CLOSE_SECONDS = 20.0
_EARLIER_SECONDS = 60.0
"""How long to wait for the actors of an earlier command, which Ray ends when the command is gone."""
_LOOK_SECONDS = 0.2
_CONNECT_SECONDS = 5.0
_REMEDY = "start one with `ray start --head`, or write `--ray local`"


class RayFailed(PodiumError):
    """The Ray cluster cannot run the lines of a batch."""

    code = "ray"


class OnRay:
    """Runs lines in the actors of a Ray cluster. The budget and the files stay in this process."""

    def __init__(self, asked: Asked, config: Path, form: Form, note: Callable[[str], None]) -> None:
        self._asked = asked
        self._config = config
        self._form: Form = form
        self._note = note
        self._ready: list[Any] = []
        """The actors that have started."""
        self._count = ceil(asked.concurrency / _LINES)
        self._free, self._slots = anyio.create_memory_object_stream[Any](self._count * _LINES)
        """The free places of the actors that have started, or the errors of those that cannot start."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Connect to the cluster, and keep the actors in the block."""
        with _connected(self._asked.ray or "auto"), self._free, self._slots:
            await self._wait_for_earlier()
            machine = ray.util.get_node_ip_address()
            setup = setup_of(self._config, machine, self._asked.name, self._asked.max_cost)
            actors = [_start(setup, number) for number in range(self._count)]
            try:
                async with beside(self._tell, *(partial(self._open, actor) for actor in actors)):
                    yield
            finally:
                await _close(self._ready)
                for actor in actors:
                    ray.kill(actor)

    async def run(self, line: Line, *, is_recorded: bool) -> Record:
        """Run a line in an actor; see `RunsLines.run`."""
        slot = await self._slots.receive()
        try:
            if isinstance(slot, PodiumError):
                raise slot
            record = await _answer(slot.run.remote(SentLine.of(line, self._form, is_recorded=is_recorded)))
        finally:
            self._free.send_nowait(slot)
        assert isinstance(record, Record)
        return record

    async def _open(self, actor: Any) -> None:
        """Wait until an actor can run lines. So an actor for which the cluster has no place gets none."""
        slot = actor
        try:
            await _answer(actor.open.remote())
            self._ready.append(actor)
        except PodiumError as error:
            slot = error
        for _ in range(_LINES):
            self._free.send_nowait(slot)

    async def _tell(self) -> None:
        """Tell the user if no actor has started."""
        await anyio.sleep(_START_SECONDS)
        if not self._ready:
            self._note(f"podium: the actors wait for a place in the Ray cluster: each needs {_CPUS} CPUs")

    async def _wait_for_earlier(self) -> None:
        """Wait until Ray has ended the actors of an earlier command that was killed."""
        end, prefix = anyio.current_time() + _EARLIER_SECONDS, f"{self._asked.name}:"
        while any(name.startswith(prefix) for name in ray.util.list_named_actors()):
            if anyio.current_time() >= end:
                told = f"another command runs the batch {self._asked.name} on this Ray cluster"
                raise RunHeld(f"{told}: wait for its end, or choose another --name")
            await anyio.sleep(_LOOK_SECONDS)


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """Connect to a cluster; `local` starts one on this machine, which ends with the block."""
    options = {"include_dashboard": False} if address == "local" else {}
    _check_address(address)
    try:
        ray.init(address, namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, RuntimeError, ValueError, SystemExit) as error:  # Ray exits if no cluster answers
        # the message of an exit is its number
        why = "it does not answer" if isinstance(error, SystemExit) else str(error)
        raise ConfigError(f"the Ray cluster {address!r} cannot be used: {why}: {_REMEDY}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Connect once to the address of a cluster, because Ray tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # `auto`, `local`, or what Ray itself refuses
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"no Ray cluster answers at {address!r}: {_REMEDY}") from error


def _start(setup: Setup, number: int) -> Any:
    """Start an actor, which waits until the cluster has a place for it."""
    return (
        ray.remote(LineActor)
        .options(
            name=f"{setup.name}:{number}",
            num_cpus=_CPUS,
            max_concurrency=2 * _LINES,
            max_restarts=-1,
            max_task_retries=_REPEATS,
            scheduling_strategy="SPREAD",
        )
        .remote(setup)
    )


async def _close(actors: Sequence[Any]) -> None:
    """Make actors release the runs that they execute."""
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        async with anyio.create_task_group() as tasks:
            for actor in actors:
                tasks.start_soon(_close_one, actor)


async def _close_one(actor: Any) -> None:
    with suppress(RayError):  # it is killed next
        await actor.close.remote()


async def _answer(reference: Any) -> Any:
    """Return the answer of an actor."""
    try:
        answer = await reference
    except RayTaskError:  # a bug of a worker or planner
        raise
    except RayError as error:
        told = f"an actor of the Ray cluster failed: {type(error).__name__}: {error}"
        remedy = "run the same command again: it continues the batch"
        needs = "each machine needs podium-server[ray] and the same Python"
        raise RayFailed(f"{told}: {remedy}; {needs}") from error
    if isinstance(answer, Broken):
        raise (ConfigError if answer.is_config else JournalError)(answer.told)
    return answer
