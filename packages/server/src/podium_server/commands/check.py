"""`podium serve --check`: what a server would serve, and what it lacks. No model is called."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from time import time
from typing import Literal
from urllib.parse import quote

import anyio

from podium.cli.screen import counted
from podium.config import Config
from podium.errors import (
    ConfigError,
    JournalError,
    PodiumError,
    WorkerError,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.workers import ChatWorker, Endpoint, Worker
from podium_server.app import App
from podium_server.http import is_loopback, listen, url_of
from podium_server.keys import Key, KeyAccess, KeyStore, check_policy
from podium_server.models import ServedModel

_ENDPOINT_SECONDS = 10.0
"""Timeout for an answer of an endpoint."""
_KEY_REFUSED = (401, 403)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check."""

    told: str
    level: Literal["ok", "warning", "error"] = "ok"


def check(config: Config, host: str, port: int) -> Sequence[Finding]:
    """Check the keys, the models, their endpoints, the journal and the address of a server."""
    found: list[Finding] = []
    keys: Sequence[Key] = ()
    try:
        access, keys = find_keys(config)
    except ConfigError as error:  # the models may have the same finding, which is told once
        found += [Finding(line, "error") for line in str(error).splitlines()]
    except JournalError as error:
        found.append(Finding(f"journal: {error}", "error"))
    else:
        told = "there are none, so only programs of this machine can use the server"
        found.append(Finding(f"API keys: {told if access is None else 'requests need one'}"))
        try:
            check_host(host, access)
        except ConfigError as error:
            found.append(Finding(f"address: {error}", "error"))
    try:
        app = App(config)
    except PodiumError as error:
        found += [Finding(line, "error") for line in str(error).splitlines()]
    else:
        for model in app.catalogue:
            found += _of_model(model)
        found += _of_policies(config, keys)
        found += anyio.run(_of_connections, app)
    return [*dict.fromkeys(found), _of_address(host, port)]


def find_keys(config: Config) -> tuple[KeyAccess | None, Sequence[Key]]:
    """Return the access with the keys in the database of the config's journal, and the keys that are valid.

    The access is `None` if there are no keys. A revoked or expired key counts too: the server never opens
    because its last key has ended.
    """
    journal = config.journal()
    if journal is None:
        return None, ()
    store = KeyStore(journal)
    keys, now = anyio.run(store.keys), time()
    valid = [key for key in keys if key.revoked is None and (key.expires is None or key.expires > now)]
    return KeyAccess(store, journal=journal) if keys else None, valid


def check_host(host: str, access: KeyAccess | None) -> None:
    """Raise `ConfigError` if other machines could use a server without keys."""
    if access is None and not is_loopback(host):
        told = f"{host} can be reached from other machines, and the server has no API keys"
        raise ConfigError(f"{told}: create one with `podium keys create NAME`, or listen on 127.0.0.1")


def _of_model(model: ServedModel) -> list[Finding]:
    who = ", ".join(model.workers)
    found = [Finding(f"model {model.name}: {model.versioned_id}, with {who}")]
    conductor = model.conductor
    found += [Finding(f"model {model.name}: {told}", "warning") for told in conductor.warnings]
    if unpriced := ", ".join(conductor.unpriced):
        told = f"model {model.name}: the price of {unpriced} is unknown, so API keys with a budget"
        found.append(Finding(f"{told} cannot use it: set `price`, or `unpriced` in [limits]"))
    if conductor.limits.rounds > 1 and not conductor.is_judged:
        told = f"model {model.name}: no worker judges its answers, so only its planner decides on further"
        found.append(Finding(f"{told} rounds: set `accept` in [models.{model.name}]"))
    return found


def _of_policies(config: Config, keys: Sequence[Key]) -> Iterator[Finding]:
    """Yield the keys whose policy or labels no worker has, and what is missing in the policy of the file."""
    yield from (Finding(f"policy: {told}", "warning") for told in config.policy().warnings)
    for key in keys:
        if key.rules.policy is not None or key.rules.labels:
            try:
                check_policy(config, key.rules)
            except ConfigError as error:
                yield Finding(f"API key {key.name!r}: {error}", "error")


async def _of_connections(app: App) -> Sequence[Finding]:
    """Check the endpoints at the same time, and the journal."""
    found: dict[str, Finding] = {}

    async def note(place: str, check: Callable[[], Awaitable[Finding]]) -> None:
        found[place] = await check()

    checks = {
        f"endpoint {number}": partial(_of_endpoint, endpoint, models)
        for number, (endpoint, models) in enumerate(_endpoints(app).items())
    }
    checks["journal"] = partial(_of_journal, app)
    async with anyio.create_task_group() as tasks:
        for place, each in checks.items():
            tasks.start_soon(note, place, each)
    return [found[place] for place in checks]


def _endpoints(app: App) -> Mapping[Endpoint, list[str]]:
    """Return the endpoints of the models, each with the names of the models that are called there."""
    called: dict[Endpoint, list[str]] = {}
    for worker in _workers(app):
        if isinstance(worker, ChatWorker):
            models = called.setdefault(worker.endpoint, [])
            if worker.model not in models:
                models.append(worker.model)
    return called


def _workers(app: App) -> Iterator[Worker]:
    for model in app.catalogue:
        yield from model.conductor.pool
        if model.conductor.planner.worker is not None:
            yield model.conductor.planner.worker


async def _of_endpoint(endpoint: Endpoint, models: Sequence[str]) -> Finding:
    """Check that an endpoint can be reached, accepts the key, and has the models, if it lists any."""
    place = f"endpoint {endpoint.base_url}"
    try:
        listed = await _listed(endpoint)
    except WorkerError as error:
        is_unreachable = isinstance(error, WorkerUnavailable | WorkerTimeout) and error.status is None
        if is_unreachable or error.status in _KEY_REFUSED:
            return Finding(f"{place}: {error}", "error")
        listed = set()
    if not listed:
        told = f"answers; it has no list of models, so the names {', '.join(models)} were not checked"
        return Finding(f"{place}: {told}", "warning")
    for model in models:
        if not {model, f"models/{model}"} & listed and not await _has(endpoint, model):
            near = get_close_matches(model, [name.removeprefix("models/") for name in listed], n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it lists {counted(len(listed), 'other model')}"
            return Finding(f"{place}: has no model {model!r}: {hint}", "error")
    return Finding(f"{place}: answers, and has the models {', '.join(models)}")


async def _listed(endpoint: Endpoint) -> set[str]:
    """Return the names of the models that an endpoint lists; empty if it answers something else."""
    answer = await endpoint.ask("/models", deadline=anyio.current_time() + _ENDPOINT_SECONDS)
    rows = answer.get("data")
    if not isinstance(rows, list):
        return set()
    return {str(row["id"]) for row in rows if isinstance(row, dict) and row.get("id")}


async def _has(endpoint: Endpoint, model: str) -> bool:
    """Return whether an endpoint knows a model that it does not list, such as an alias."""
    deadline = anyio.current_time() + _ENDPOINT_SECONDS
    try:
        found = await endpoint.ask(f"/models/{quote(model, safe='/:')}", deadline=deadline)
    except WorkerError:
        return False
    return bool(found.get("id"))


async def _of_journal(app: App) -> Finding:
    if app.journal is None:
        return Finding("journal: runs are not recorded, so Idempotency-Key is not supported")
    try:
        await app.journal.runs(limit=1)
    except JournalError as error:
        return Finding(f"journal: {error}", "error")
    return Finding("journal: works")


def _of_address(host: str, port: int) -> Finding:
    try:
        with listen(host, port) as listening:
            return Finding(f"address: {url_of(listening)} is free")
    except ConfigError as error:
        return Finding(f"address: {error}", "error")
