"""The values `podium_labels` and `podium_policy` in the runtime context of a graph."""

from collections.abc import Iterable, Mapping
from typing import Any

from langgraph.runtime import get_runtime

from podium.errors import ConfigError
from podium.policy import Policy


def context_labels() -> Iterable[str]:
    """Return the labels of the question; empty if there are none."""
    labels: Iterable[str] | None = _value("podium_labels")
    return () if labels is None else labels


def context_policy() -> Policy | None:
    """Return the policy that applies in addition to the conductor's; `None` if there is none.

    Raises:
        ConfigError: the value is not a policy.
    """
    policy = _value("podium_policy")
    if not isinstance(policy, Policy | None):
        raise ConfigError(f"podium_policy in the runtime context is {policy!r:.80}: set a Policy")
    return policy


def _value(name: str) -> Any:
    context: object = get_runtime().context
    return context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
