r"""Drives a running vLLM server through Podium, as the conductor and as the workers.

What it shows, with any model and most strictly with a random one: every constrained plan
parses and runs, the answer streams, usage is the server's own, and a run that is left
closes its request on the server. Make a tiny model and serve it in an environment of its
own, then run this in Podium's:

    python make_tiny_model.py tiny
    VLLM_ENABLE_V1_MULTIPROCESSING=0 python -m vllm.entrypoints.openai.api_server \
        --model tiny --served-model-name tiny --enforce-eager --max-model-len 4096 --port 8199
    python conduct.py http://127.0.0.1:8199/v1 tiny
"""

import argparse
import asyncio
import urllib.request
from collections import Counter

from podium import Card, ChatPlanner, ChatWorker, Conductor, Endpoint, Limits, Sampling
from podium.plan_text import Spelling
from podium.types import AnswerDelta, RunEnded, StepDelta, StepStarted

QUESTION = "Which is heavier, {number} litres of milk or {number} litres of oil, and why?"


def conductor(server: Endpoint, model: str, spelling: Spelling, words: int) -> Conductor:
    """Return a conductor whose planner and three workers are one model."""
    planner = ChatPlanner(
        ChatWorker(model, endpoint=server, card=Card(name="planner")),
        spelling=spelling,
        sampling=Sampling(temperature=1.0, max_tokens=1500),
    )
    pool = [
        ChatWorker(
            model,
            endpoint=server,
            card=Card(name=f"worker-{number}", description="A model."),
            sampling=Sampling(max_tokens=words),
        )
        for number in range(3)
    ]
    return Conductor(planner, pool, limits=Limits(seconds=300))


async def plans(server: Endpoint, model: str, count: int) -> None:
    """Plan and run `count` questions, in all spellings, and count what came of them."""
    spellings: tuple[Spelling, ...] = ("rows", "json", "lists")
    ends: Counter[str] = Counter()
    for number in range(count):
        spelling = spellings[number % len(spellings)]
        result = await conductor(server, model, spelling, 48).run(QUESTION.format(number=number))
        first = result.proposals[0]
        ends[f"{spelling}: " + (first.problem.code if first.problem else "parsed")] += 1
        failed = [o.problem for o in result.outcomes if o.status == "failed" and o.problem is not None]
        ends["run, but a step failed" if failed else "run to its end"] += 1
        for problem in failed:
            print(f"plan {number}: {problem.code}: {problem.message}")
        ends["usage estimated"] += result.usage.estimated
    print(f"{count} constrained plans: {dict(sorted(ends.items()))}")


async def streaming(server: Endpoint, model: str) -> None:
    """Stream one run and say what came when."""
    started, deltas, answer = 0, 0, 0
    async for event in conductor(server, model, "rows", 64).stream(QUESTION.format(number=2)):
        started += isinstance(event, StepStarted)
        deltas += isinstance(event, StepDelta)
        answer += isinstance(event, AnswerDelta)
        if isinstance(event, RunEnded):
            print(
                f"streaming: {started} steps, {deltas} pieces, {answer} of the answer; {event.result.usage}"
            )


async def cancelling(server: Endpoint, model: str, metrics: str) -> None:
    """Leave a run whose workers would write for long, and ask the server what still runs."""
    stream = conductor(server, model, "rows", 3000).stream(QUESTION.format(number=3))
    async for event in stream:
        if isinstance(event, StepDelta):
            print(f"cancel: {await running(metrics):g} request(s) running before")
            break
    await stream.aclose()
    await asyncio.sleep(0.3)
    print(f"cancel: {await running(metrics):g} request(s) running 0.3 s after")


async def running(metrics: str) -> float:
    """Return how many requests the server says it works on."""

    def read() -> str:
        with urllib.request.urlopen(metrics, timeout=10) as page:  # noqa: S310 - the URL a user typed
            return str(page.read().decode())

    page = await asyncio.to_thread(read)
    lines = (line for line in page.splitlines() if line.startswith("vllm:num_requests_running"))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


async def main() -> None:
    """Run all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--plans", type=int, default=100)
    asked = parser.parse_args()
    server = Endpoint(asked.url, provider="vllm")
    async with server:
        await plans(server, asked.model, asked.plans)
        await streaming(server, asked.model)
        await cancelling(server, asked.model, asked.url.removesuffix("/v1") + "/metrics")


if __name__ == "__main__":
    asyncio.run(main())
