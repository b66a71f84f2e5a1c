"""`podium serve --check`: what a server would serve, and what it lacks. No model is called."""

from collections.abc import Sequence
from dataclasses import dataclass

from podium.conductor import Conductor
from podium.errors import ConfigError, JournalError
from podium_server.app import App
from podium_server.http import listen, url_of
from podium_server.models import ServedModel


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the check."""

    told: str
    ok: bool = True


async def check(app: App, host: str, port: int) -> Sequence[Finding]:
    """Check the models, the journal and the address of a server."""
    found = [finding for model in app.catalogue for finding in _of_model(model)]
    return [*found, await _of_journal(app), _of_address(host, port)]


def _of_model(model: ServedModel) -> list[Finding]:
    who = ", ".join(model.workers) or "a hosted conductor"
    found = [Finding(f"model {model.name}: {model.versioned_id}, with {who}")]
    conductor = model.conductor
    if isinstance(conductor, Conductor):
        if unpriced := ", ".join(conductor.unpriced):
            told = f"model {model.name}: the price of {unpriced} is unknown, so API keys with a budget"
            found.append(Finding(f"{told} cannot use it: set `price`, or `unpriced` in [limits]"))
        if conductor.limits.rounds > 1 and not conductor.is_judged:
            told = f"model {model.name}: no worker judges its answers, so only its planner decides on further"
            found.append(Finding(f"{told} rounds: set `accept` in [models.{model.name}]"))
    return found


async def _of_journal(app: App) -> Finding:
    if app.journal is None:
        return Finding("journal: runs are not recorded, so Idempotency-Key is not supported")
    try:
        await app.journal.runs(limit=1)
    except JournalError as error:
        return Finding(f"journal: {error}", ok=False)
    return Finding("journal: works")


def _of_address(host: str, port: int) -> Finding:
    try:
        with listen(host, port) as listening:
            return Finding(f"address: {url_of(listening)} is free")
    except ConfigError as error:
        return Finding(f"address: {error}", ok=False)
