"""How far a run's duration exceeds its plan's critical path, on a virtual clock.

Nothing is computed between two ticks of that clock, so any excess is the executor's: a step
that started later than the last step it may see had ended.
"""

import asyncio
from dataclasses import dataclass
from random import Random

import anyio

from podium.budget import Limits
from podium.conductor import Conductor
from podium.planners import FixedPlanner
from podium.types import Plan, Step
from podium.workers import FunctionWorker, StepInput
from podium_evals.clock import VirtualClock

STEPS = 10
"""Steps of the longest plan."""
_DENSITIES = (0.0, 0.2, 0.4, 0.7, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Makespan:
    """What the random plans came to."""

    plans: int
    worst_percent: float
    """Largest excess over the critical path."""
    median_percent: float


def measure_makespan(plans: int = 200, seed: int = 1) -> Makespan:
    """Run random plans of up to `STEPS` steps that take log-normal times."""
    random = Random(seed)
    with asyncio.Runner(loop_factory=VirtualClock) as runner:
        excesses = sorted(runner.run(_excess(random)) for _ in range(plans))
    return Makespan(plans=plans, worst_percent=excesses[-1], median_percent=excesses[plans // 2])


async def _excess(random: Random) -> float:
    """Run one random plan; return its excess over the critical path, in percent."""
    plan = random_plan(random)
    seconds = {step.subtask: random.lognormvariate(0.0, 1.0) for step in plan.steps}

    async def work(step_input: StepInput) -> str:
        await anyio.sleep(seconds[step_input.subtask])
        return "done"

    forever = 1e6
    limits = Limits(plan_steps=STEPS, concurrency=STEPS, seconds=forever, step_seconds=forever)
    async with Conductor(FixedPlanner(plan), [FunctionWorker(work)], limits=limits) as conductor:
        began = anyio.current_time()
        result = await conductor.run(plan)
        lasted = anyio.current_time() - began
    assert result.status == "ok", result.explain()
    # a step that nobody is shown is not run
    weights = [seconds[s.subtask] if i in plan.needed else 0.0 for i, s in enumerate(plan.steps)]
    shortest = sum(weights[index] for index in plan.critical_path(weights))
    return 100 * (lasted / shortest - 1)


def random_plan(random: Random) -> Plan:
    """Return a plan of 1 to `STEPS` steps with access lists from empty to full."""
    density = random.choice(_DENSITIES)
    steps = []
    for index in range(random.randint(1, STEPS)):
        access = tuple(seen for seen in range(index) if random.random() < density)
        steps.append(Step(0, f"step {index}", access))
    return Plan(tuple(steps))
