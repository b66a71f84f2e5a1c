"""The OpenAI Agents SDK: a conductor's model, agents called by hand, agents as tools, handoffs.

The SDK needs `openai` 3, so its teams run in a process with the environment of `packages/openai-agents`.
"""

import json
import subprocess
from functools import cache

import anyio.to_thread

from benchmarks.comparison.arms.arm import Arm, hand_over, plan, work
from benchmarks.comparison.job import Job
from benchmarks.comparison.measure import OPENAI_AGENTS_PYTHON, ROOT
from benchmarks.comparison.model_server import MANAGER, Asked, Said, Script


@cache
def _process() -> subprocess.Popen[str]:
    """Start the process; it exits when this process closes its input."""
    command = [str(OPENAI_AGENTS_PYTHON), "-m", "benchmarks.comparison.openai_agents_process"]
    return subprocess.Popen(  # noqa: S603 - an interpreter of this repository
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _ask(line: str) -> str:
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError("the process of the OpenAI Agents SDK ended; its stderr is above")
    return str(json.loads(answer))


def _arm(name: str, team: str, script: Script) -> Arm:
    async def run(job: Job, url: str) -> str:
        asked = json.dumps([team, len(job.units), url, MANAGER])
        return await anyio.to_thread.run_sync(_ask, asked)

    return Arm(name, run, script)


def _one_at_a_time(job: Job, asked: Asked) -> Said | None:
    """Call the analysts in turn, one in each answer, then write the recommendation."""
    if asked.model != MANAGER:
        return None
    left = job.units[asked.turn : asked.turn + 1]
    return (
        Said(calls=[(u.name, {"input": u.subtask}) for u in left]) if left else Said(job.joined(asked.text))
    )


def _all_at_once(job: Job, asked: Asked) -> Said | None:
    """Call all analysts in one answer, then write the recommendation."""
    if asked.model != MANAGER:
        return None
    if asked.turn == 0:
        return Said(calls=[(unit.name, {"input": unit.subtask}) for unit in job.units])
    return Said(job.joined(asked.text))


ARMS = (
    _arm("Podium, ConductorModel", "podium", plan),
    _arm("Runner.run side by side, wired by hand", "by_hand", work),
    _arm("agents as tools", "tools", _one_at_a_time),
    _arm("agents as tools, several at once", "tools", _all_at_once),
    _arm("handoffs, every agent to every other", "mesh", hand_over),
    _arm("handoffs, one successor", "chain", hand_over),
)
