"""Podium's core, without a host."""

from benchmarks.comparison.arms.arm import Arm, plan
from benchmarks.comparison.job import QUESTION, Job
from benchmarks.comparison.model_server import MANAGER
from podium import Card, ChatPlanner, ChatWorker, Conductor, Endpoint


async def _run(job: Job, url: str) -> str:
    endpoint = Endpoint(url, api_key="none")
    workers = [
        ChatWorker(step.name, endpoint=endpoint, card=Card(name=step.name, description=step.description))
        for step in job.steps
    ]
    conductor = Conductor(ChatPlanner(ChatWorker(MANAGER, endpoint=endpoint)), workers)
    result = await conductor.run(QUESTION)
    return result.answer or ""


ARMS = (Arm("Podium", _run, plan),)
