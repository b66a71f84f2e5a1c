"""Creates a conductor from a planner, workers and options of a host's caller."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Final

from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.planners import Planner
from podium.workers import Pool, Worker

CONDUCTOR_OPTIONS: Final = tuple(
    name
    for name, parameter in signature(Conductor.__init__).parameters.items()
    if parameter.kind is Parameter.KEYWORD_ONLY
)
"""Names of the options of `Conductor`."""


def make_conductor(
    planner: object,
    workers: Pool | Sequence[Worker],
    options: Mapping[str, Any],
    *,
    as_planner: Callable[[Any], Planner],
    face: str,
    takes: Sequence[str] = (),
) -> Conductor:
    """Return a conductor. Its planner and fallback planner may be models of the host.

    Args:
        planner: a planner, or an argument of `as_planner`.
        workers: the pool.
        options: options of `Conductor`.
        as_planner: creates a planner from a model of the host.
        face: the name of the function that the user called, for error messages.
        takes: names of further options that this function accepts, for error messages.

    Raises:
        TypeError: `Conductor` has no such option.
        ConfigError: `as_planner` rejects the planner, or `Conductor` rejects an argument.
    """
    if unknown := options.keys() - set(CONDUCTOR_OPTIONS):
        told = ", ".join((*takes, *CONDUCTOR_OPTIONS))
        raise TypeError(f"{face} does not accept {', '.join(sorted(unknown))}: its options are {told}")

    def made(given: Any) -> Planner:
        return given if isinstance(given, Planner) else as_planner(given)

    fallback = options.get("fallback_planner")
    if fallback is not None:
        try:
            options = {**options, "fallback_planner": made(fallback)}
        except ConfigError as error:
            raise ConfigError(f"fallback_planner: {error}") from error
    return Conductor(made(planner), workers, **options)
