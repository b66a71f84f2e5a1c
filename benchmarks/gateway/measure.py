"""Measures one gateway."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median

import aiohttp
import anyio

from benchmarks.gateway.client import Client, Streams
from benchmarks.gateway.gateways import Gateway
from benchmarks.gateway.processes import Server

IN_FLIGHT = 32
_STREAMS_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is measured."""

    requests: int
    """Number of requests with one in flight."""
    seconds: float
    """Duration of the requests with `IN_FLIGHT` in flight."""
    streams: int
    """Number of streams at the same time; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was measured of a gateway."""

    gateway: str
    added_ms: float
    """Median added latency of a request, one in flight."""
    added_p99_ms: float
    requests_per_s: float
    """With `IN_FLIGHT` in flight."""
    cpu_us: float
    """CPU time of the gateway for a request, with `IN_FLIGHT` in flight."""
    first_token_ms: float
    """Median delay of the first token, one stream at a time; without the gateway it is `direct_token_ms`."""
    direct_token_ms: float
    resident_mb: float
    """Memory after these requests."""
    streams: Streams | None
    """The streams at the same time, if they were measured."""
    streams_mb: float | None
    """Memory while they were open."""


async def measure(gateway: Gateway, model: Server, load: Load) -> Reading:
    """Measure a gateway.

    Args:
        gateway: the gateway.
        model: the model behind it, which is also measured without the gateway.
        load: how much is measured.
    """
    async with _client(gateway.server.url, gateway.key) as through, _client(model.url, "none") as direct:
        for _ in range(load.requests // 5):  # connections, caches
            await through.whole()
            await direct.whole()
        with_it, without = [], []
        for _ in range(load.requests):  # in turn, so that both see the same load of the machine
            without.append(await direct.whole())
            with_it.append(await through.whole())
        rate, cpu = await _rate(gateway, through, load.seconds)
        tokens = [
            (await through.first_token(), await direct.first_token()) for _ in range(load.requests // 2)
        ]
        resident = gateway.server.resident_mb
        streams, streams_mb = None, None
        if load.streams:
            streams, streams_mb = await _streams(gateway, through, model, load.streams)
    return Reading(
        gateway=gateway.name,
        added_ms=1e3 * (median(with_it) - median(without)),
        added_p99_ms=1e3 * (_p99(with_it) - _p99(without)),
        requests_per_s=rate,
        cpu_us=cpu * 1e6,
        first_token_ms=1e3 * median(token for token, _ in tokens),
        direct_token_ms=1e3 * median(token for _, token in tokens),
        resident_mb=resident,
        streams=streams,
        streams_mb=streams_mb,
    )


async def _rate(gateway: Gateway, client: Client, seconds: float) -> tuple[float, float]:
    """Return the requests of a second, and the CPU seconds of the gateway for each."""
    done, end = 0, time.perf_counter() + seconds

    async def ask() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await client.whole()
            done += 1

    began, cpu = time.perf_counter(), gateway.server.cpu_s
    async with anyio.create_task_group() as tasks:
        for _ in range(IN_FLIGHT):
            tasks.start_soon(ask)
    return done / (time.perf_counter() - began), (gateway.server.cpu_s - cpu) / done


async def _streams(gateway: Gateway, client: Client, model: Server, number: int) -> tuple[Streams, float]:
    """Open streams at the same time, let them end, and return their counts and the memory."""
    streams = Streams()
    async with anyio.create_task_group() as tasks, aiohttp.ClientSession() as session:
        for _ in range(number):
            tasks.start_soon(client.held, streams)
        with anyio.move_on_after(_STREAMS_SECONDS):
            while streams.begun < number:  # noqa: ASYNC110 - many tasks count
                await anyio.sleep(0.05)
        resident = gateway.server.resident_mb
        async with session.post(f"{model.url.removesuffix('/v1')}/release"):
            pass
    return streams, resident


@asynccontextmanager
async def _client(url: str, key: str) -> AsyncGenerator[Client]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Client(session, url, key)


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * len(values))]
