"""A conductor made of what a host's caller gave: a planner, workers and options."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Final

from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.planners import Planner
from podium.workers import Worker

CONDUCTOR_OPTIONS: Final = tuple(
    name
    for name, parameter in signature(Conductor.__init__).parameters.items()
    if parameter.kind is Parameter.KEYWORD_ONLY
)
"""Names of the options of `Conductor`."""


def make_conductor(
    planner: object,
    workers: Sequence[Worker],
    options: Mapping[str, Any],
    *,
    as_planner: Callable[[Any], Planner],
    face: str,
    takes: Sequence[str] = (),
) -> Conductor:
    """Return a conductor. Its planner and its fallback planner may be models of the host's.

    Args:
        planner: a planner, or what `as_planner` takes.
        workers: the pool.
        options: options of `Conductor`.
        as_planner: makes a planner of a model of the host's.
        face: the function that the caller called, for an error.
        takes: options that this function takes besides those of `Conductor`, for an error.

    Raises:
        TypeError: an option is not one of `Conductor`'s.
        ConfigError: `as_planner` cannot make a planner of what was given, or as `Conductor`.
    """
    if unknown := options.keys() - set(CONDUCTOR_OPTIONS):
        told = ", ".join((*takes, *CONDUCTOR_OPTIONS))
        raise TypeError(f"{face} takes no {', '.join(sorted(unknown))}: its options are {told}")

    def made(given: Any) -> Planner:
        return given if isinstance(given, Planner) else as_planner(given)

    fallback = options.get("fallback_planner")
    if fallback is not None:
        try:
            options = {**options, "fallback_planner": made(fallback)}
        except ConfigError as error:
            raise ConfigError(f"fallback_planner: {error}") from error
    return Conductor(made(planner), workers, **options)
