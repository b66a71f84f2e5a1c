"""Attach the result of a run to the answer as metadata."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from agents import ModelResponse
from agents.result import RunResultBase

from openai_agents_podium.tool_continuation import PODIUM
from podium.hosts import result_metadata
from podium.types import Result


def metadata_of(result: Result) -> dict[str, Any]:
    """Return the `provider_data` for the items of an answer: the run's metadata, without outputs of steps."""
    return {PODIUM: result_metadata(result, usage=asdict)}


def podium_metadata(answer: RunResultBase | ModelResponse) -> Mapping[str, Any]:
    """Return the metadata of the conductor's run behind an answer, as plain JSON.

    The keys are those of `podium.hosts.result_metadata`: `run_id`, `status`, `problem`, `planner`,
    `plan`, `workers`, `steps`, `usage`, `cost`, …

    Args:
        answer: the result of `Runner.run`, of which the last answer of a conductor is used; or one answer of
            a `ConductorModel`.

    Raises:
        LookupError: there is no answer of a conductor, or it answered as a step of another conductor's run.
    """
    responses = [answer] if isinstance(answer, ModelResponse) else answer.raw_responses
    for response in reversed(responses):
        for item in response.output:
            data = getattr(item, "provider_data", None)
            if isinstance(data, Mapping) and PODIUM in data:
                found: Mapping[str, Any] = data[PODIUM]
                return found
    raise LookupError("it contains no answer of a conductor")
