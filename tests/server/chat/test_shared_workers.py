"""The models of a server share their workers: concurrency limits and circuit breakers hold for all models."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest
from server.scene import ASKED
from servers.chat_server import Call, ChatServer, Pause, Reply, says, whole
from servers.podium_server import Served, serving

CONFIG = """
[endpoints.here]
base_url = "{url}"
provider = "vllm"

[workers.one]
endpoint = "here"
model = "one"

[workers.narrow]
endpoint = "here"
model = "narrow"
concurrency = 2

[planner]
worker = "narrow"

[journal]
path = "runs.db"

[retry]
attempts = 1
break_after = 2
break_seconds = 60

[models.first]
workers = ["narrow"]

[models.second]
worker = "narrow"

[models.judged]
workers = ["one"]
accept = "narrow"
"""
PLAN = '{"worker": 0, "subtask": "Answer.", "access": []}\n'


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers; a test sets `reply`."""
    with ChatServer(lambda call: whole({}, status=503)).in_thread() as server:
        yield server


@pytest.fixture
def served(upstream: ChatServer, tmp_path: Path) -> Iterator[Served]:
    """Serve three models with one worker."""
    with serving(CONFIG.format(url=upstream.url), tmp_path) as running:
        yield running


def test_the_concurrency_of_a_worker_holds_for_all_models(served: Served, upstream: ChatServer) -> None:
    """As worker of a step, as planner, and as judge."""
    parallel: list[int] = []

    def reply(call: Call) -> Reply:
        if call.body["model"] == "narrow":
            running = [other for other in upstream.calls if not other.answered.is_set()]
            parallel.append(sum(other.body["model"] == "narrow" for other in running))
        text = PLAN if "structured_outputs" in call.body else "YES"
        return Reply((Pause(0.03), *says(call, text).parts))

    def ask(model: str) -> str:
        answer = client.chat.completions.create(model=model, messages=ASKED)
        return answer.choices[0].message.content or ""

    upstream.reply = reply
    client = served.client()
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(ask, ["first", "second", "judged"] * 2))
    assert answers == ["YES"] * 6
    assert max(parallel) == 2


def test_a_circuit_breaker_holds_for_all_models(served: Served, upstream: ChatServer) -> None:
    """After the failures in one model, another model does not call the worker."""
    client = served.client()
    for calls in (1, 2, 2):
        with pytest.raises(openai.APIStatusError):
            client.chat.completions.create(model="second", messages=ASKED)
        assert len(upstream.calls) == calls
    for model in ("first", "judged"):
        with pytest.raises(openai.APIStatusError):
            client.chat.completions.create(model=model, messages=ASKED)
    assert len(upstream.calls) == 2
