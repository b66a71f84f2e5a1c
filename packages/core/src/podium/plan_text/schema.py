"""The JSON schema of a plan in the spelling `json`, for constrained decoding.

Models are not asked how many inputs are enough, so the schema has no place for it.
"""

from typing import Any

from podium.errors import ConfigError
from podium.types.plan import PREVIOUS


def plan_schema(workers: int, max_steps: int, *, keep: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a plan in the spelling `json`.

    A schema cannot say that access lists name earlier steps only; `parse_plan` still
    checks. How long a subtask gets is left to the server's token limit: decoders that take
    `maxLength` let raw control characters through, and vLLM's refuses long patterns.

    Args:
        workers: how many workers there are.
        max_steps: most steps the plan may have.
        keep: whether there is a round before: the plan may have no steps, to keep its answer,
            and access lists may name it.

    Raises:
        ConfigError: there are no workers, or no step is allowed.
    """
    check_sizes(workers, max_steps)
    entry: dict[str, Any] = {"type": "integer"}
    if max_steps > 1:
        entry |= {"minimum": 0, "maximum": max_steps - 2}
    if keep:
        entry = {"anyOf": [entry, {"type": "string", "enum": [PREVIOUS]}]}
    access = {"type": "array", "items": entry, "maxItems": max_steps - 1 + keep}
    fields = {
        "worker": {"type": "integer", "enum": list(range(workers))},
        "subtask": {"type": "string"},
        "access": access,
    }
    step = _closed(fields)
    steps = {"type": "array", "items": step, "minItems": 0 if keep else 1, "maxItems": max_steps}
    return _closed({"steps": steps})


def check_sizes(workers: int, max_steps: int) -> None:
    """Raise `ConfigError` unless there is a worker and room for a step."""
    if workers < 1:
        raise ConfigError(f"{workers} workers: a plan needs one worker at least")
    if max_steps < 1:
        raise ConfigError(f"max_steps {max_steps}: a plan needs one step at least")


def _closed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
