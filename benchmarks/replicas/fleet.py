"""Replicas of `podium serve` on one PostgreSQL, with a server of models, each in a process of its own."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from benchmarks.gateway.processes import Server, started
from benchmarks.postgres_server import PostgresServer
from benchmarks.replicas import model_server
from podium_server.keys import KeyRules, KeyStore

_MANY = 900_000_000
_RULES = KeyRules(
    day_cost=1e6, month_cost=1e7, run_cost=0.5, requests_per_minute=_MANY, tokens_per_minute=_MANY
)
_ROOT = Path(__file__).parents[2]
_WORKER = """
[workers.{name}]
endpoint = "here"
model = "{name}"
description = "{does}"
price = {{ input = 0.1, output = 0.4 }}
"""
_WORKERS = {"facts": "Collects facts.", "doubts": "Finds objections.", "writer": "Writes answers."}
_CONFIG = """
[endpoints.here]
base_url = "{model}"
{workers}
[planner]
endpoint = "here"
model = "planner"
price = {{ input = 0.1, output = 0.4 }}

[journal]
url = "{database}"

[server]
requests = 4096
background_runs = {slots}
queued_runs = 1000000
"""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running replicas."""

    replicas: Sequence[Server]
    model: Server
    postgres: PostgresServer
    database: str
    """URL of the database."""
    keys: Sequence[str]
    """The API keys; empty for a server without keys."""


@contextmanager
def fleet(*, replicas: int, keys: int, slots: int, latency: float, logs: bool = False) -> Iterator[Fleet]:
    """Run replicas on an empty database until the block ends.

    Args:
        replicas: number of replicas.
        keys: number of API keys.
        slots: maximum number of background runs of a replica at the same time.
        latency: how long each call of a model takes, in seconds.
        logs: whether PostgreSQL logs each statement, which costs much.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        logged = {"log_min_messages": "log", "log_min_duration_statement": "0"} if logs else {}
        postgres = stack.enter_context(PostgresServer(logged))
        database = postgres.url(postgres.create_database(), driver="postgresql")
        texts = anyio.run(_create_keys, database, keys)
        command = (sys.executable, "-m", model_server.__name__, "{port}", str(latency))
        model = stack.enter_context(started(command, path="/v1", folder=_ROOT))
        workers = "".join(_WORKER.format(name=name, does=does) for name, does in _WORKERS.items())
        config = folder / "podium.toml"
        config.write_text(
            _CONFIG.format(model=model.url, workers=workers, database=database, slots=slots), encoding="utf-8"
        )
        serve = (Path(sys.executable).parent / "podium", "serve", "--port", "{port}", "--config", config)
        servers = [stack.enter_context(started(serve, path="/v1")) for _ in range(replicas)]
        yield Fleet(servers, model, postgres, database, texts)


async def _create_keys(database: str, number: int) -> Sequence[str]:
    if not number:
        return ()
    async with KeyStore(database) as store:
        return [(await store.create(f"key {each}", _RULES))[1] for each in range(number)]
