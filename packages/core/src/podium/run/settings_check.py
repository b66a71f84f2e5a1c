"""Checks the planner and the settings of a conductor when it is made, before a run fails because of them."""

import logging
from typing import get_args

from podium.errors import ConfigError
from podium.execution.retry_policy import OnFailure
from podium.execution.run_context import ConductorSettings
from podium.journal.answer_cache import Cache
from podium.planners.planner import Planner
from podium.secrets import scrub
from podium.workers.pool import Pool
from podium.workers.worker import Worker

_LOG = logging.getLogger("podium")


def check_planner(planner: object) -> None:
    """Raise `ConfigError` unless this is a planner with a name."""
    if not isinstance(planner, Planner):
        host = "make one of a framework's model with as_planner(...) of its package"
        hint = "wrap it in a ChatPlanner" if isinstance(planner, Worker) else host
        raise ConfigError(f"{scrub(repr(planner)):.80} is not a planner: {hint}")
    if not isinstance(getattr(planner, "name", None), str):
        raise ConfigError(f'{type(planner).__name__} has no name: set `name = "..."` on the class')


def check_settings(settings: ConductorSettings) -> None:
    """Raise `ConfigError` for settings that would stop a run after it has started."""
    if settings.on_failure not in get_args(OnFailure):
        values = ", ".join(map(repr, get_args(OnFailure)))
        raise ConfigError(f"on_failure is {settings.on_failure!r}: write one of {values}")
    cache: object = settings.cache
    if not isinstance(cache, Cache | None) and cache != "run":
        told = "write 'run', or a cache of podium.journal, such as MemoryCache() for this process"
        raise ConfigError(f"cache is {cache!r:.80}: {told}")
    settings.retry.check(settings.pool)
    settings.policy.fit(settings.pool.cards, settings.parties)
    settings.policy.check_labels(settings.labels, settings.parties)
    if settings.policy.waits and settings.journal is None:
        raise ConfigError("a policy that makes plans wait for approval needs a journal: set journal")


def logged_warnings(planner: Planner, pool: Pool) -> tuple[str, ...]:
    """Return the planner's warnings about this pool, after they are logged."""
    warnings = tuple(planner.warnings(pool.workers))
    for warning in warnings:
        _LOG.warning("planner %r: %s", planner.name, warning)
    return warnings
