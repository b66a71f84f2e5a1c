"""A program on Ray Data calls `podium serve`, and names the run of each row."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import aiohttp
import httpx2
import pytest
import ray

from podium_server import demo_config, serve_in_thread

QUESTIONS = [{"question": f"What is {number} * {number}?"} for number in range(8)]

pytestmark = [pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore")]  # of Ray Data


@pytest.fixture
def on_ray() -> Iterator[None]:
    """A cluster for the programs of one test."""
    ray.init("local", include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def session() -> aiohttp.ClientSession:
    """Return a session whose requests have the hash of their body as the idempotency key."""

    async def name_run(request: aiohttp.ClientRequest, send: Any) -> aiohttp.ClientResponse:
        request.headers["Idempotency-Key"] = sha256(await request.body.as_bytes()).hexdigest()
        answer: aiohttp.ClientResponse = await send(request)
        return answer

    return aiohttp.ClientSession(middlewares=[name_run])


@pytest.mark.usefixtures("on_ray")
def test_a_repeated_job_is_not_paid_again() -> None:
    """Each row has its answer, and the same job again makes no further run."""
    from ray.data.llm import HttpRequestProcessorConfig, build_processor  # noqa: PLC0415 - its import warns

    with demo_config() as config, serve_in_thread(config) as url:
        processor = build_processor(
            HttpRequestProcessorConfig(
                url=f"{url}/chat/completions", session_factory=session, batch_size=4, concurrency=1
            ),
            preprocess=lambda row: {
                "payload": {"model": "podium", "messages": [{"role": "user", "content": row["question"]}]}
            },
            postprocess=lambda row: {"answer": row["http_response"]["choices"][0]["message"]["content"]},
        )
        jobs = [processor(ray.data.from_items(QUESTIONS)).take_all() for _ in range(2)]
        runs = httpx2.get(f"{url}/runs", params={"limit": 100}).json()["data"]
    for answers in jobs:
        assert {"answer": "7 * 7 = 49"} in answers
        assert len(answers) == len(QUESTIONS)
    assert len(runs) == len(QUESTIONS)
