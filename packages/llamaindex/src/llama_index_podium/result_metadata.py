"""Convert the result of a run to LlamaIndex's metadata, which is plain JSON."""

from typing import Any

from podium.hosts import result_metadata
from podium.types import Result
from podium.usage import Usage


def metadata_of(result: Result) -> dict[str, Any]:
    """Return a run's id, status, plan, usage and cost, and the output and outcome of each step."""
    return result_metadata(result, usage=counts_of, outputs=True)


def counts_of(usage: Usage) -> dict[str, Any]:
    """Return usage under the names that OpenAI's clients and LlamaIndex's counters use."""
    return {
        "prompt_tokens": usage.total_input_tokens,
        "completion_tokens": usage.total_output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "estimated": usage.estimated,
    }
