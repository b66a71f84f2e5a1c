"""The class of an arm, and the scripts of Podium's arms."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.comparison.job import THOUGHT, Job
from benchmarks.comparison.model_server import MANAGER, Asked, Said, Script


def work(_job: Job, _asked: Asked) -> None:
    """Return `None`, so that every answer comes from the job."""


@dataclass(frozen=True)
class Arm:
    """A way to do the job."""

    name: str
    run: Callable[[Job, str], Awaitable[str]]
    """Does the job with the server at this URL, and returns the answer."""
    script: Script = work


def plan(job: Job, asked: Asked) -> Said | None:
    """Return the answer of Podium's planner: reasoning, then the plan in the default spelling."""
    if asked.model != MANAGER:
        return None
    access: list[list[int]] = [[] for _ in job.units] + [list(range(len(job.units)))]
    rows = [
        json.dumps({"worker": at, "subtask": step.subtask, "access": access[at]})
        for at, step in enumerate(job.steps)
    ]
    return Said(THOUGHT + "\n\n" + "\n".join(rows))


def hand_over(job: Job, asked: Asked) -> Said | None:
    """Return the answer of an agent in a swarm: its output, and a handoff to the next agent."""
    names = [step.name for step in job.steps]
    at = names.index(asked.model)
    text = job.output(asked.model, asked.text)
    if at == len(names) - 1:
        return Said(text)
    following = names[at + 1]
    if "handoff" in asked.tools:
        reason = f"My finding is complete; {following} does the next part."
        return Said(text, [("handoff", {"to_agent": following, "reason": reason})])
    return Said(text, [(f"transfer_to_{following}", {})])
