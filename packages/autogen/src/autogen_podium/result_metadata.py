"""Write a run's result as the metadata of a message, whose values must be text."""

import json
from dataclasses import asdict
from typing import Any

from autogen_podium.messages import write_usage
from podium.hosts import result_metadata
from podium.types import Result
from podium.usage import Usage


def message_metadata(result: Result) -> dict[str, str]:
    """Return `podium.hosts.result_metadata` with the prefix `podium_`, and all values except text as JSON."""
    facts = result_metadata(result, usage=_usage)
    return {
        f"podium_{name}": fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {**asdict(write_usage(usage)), "estimated": usage.estimated}


def usage_left(total: Usage, told: Usage) -> Usage:
    """Return the tokens of a run that no message inside the run has."""
    counts = {
        name: max(0, count - getattr(told, name))
        for name, count in asdict(total).items()
        if name != "estimated"
    }
    return Usage(**counts, estimated=total.estimated)
