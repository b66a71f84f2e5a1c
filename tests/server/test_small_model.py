"""A real small model answers as the worker of a served model."""

from pathlib import Path
from typing import Any

import pytest
from servers.podium_server import serving
from servers.small_model import small_model

pytestmark = pytest.mark.long

CONFIG = """
[endpoints.here]
base_url = "{url}"

[workers.smollm]
endpoint = "here"
model = "SmolLM2-135M-Instruct"
sampling = {{ max_tokens = 16, temperature = 0.0 }}
price = {{ input = 1.0, output = 2.0 }}

[planner]
type = "rule"

[journal]
path = "runs.db"

[models.small]
worker = "smollm"
show = "none"

[models.team]
workers = ["smollm"]
"""


def test_a_small_model_answers(tmp_path: Path) -> None:
    asked: Any = [{"role": "user", "content": "What is the capital of France?"}]
    more: Any = {"stream": True, "stream_options": {"include_usage": True}}
    with small_model() as url, serving(CONFIG.format(url=url), tmp_path) as served:
        client = served.client()
        answer = client.chat.completions.create(model="small", messages=asked)
        chunks = list(client.chat.completions.create(model="team", messages=asked, **more))
    assert (bool(answer.choices[0].message.content), answer.choices[0].finish_reason) == (True, "length")
    assert answer.usage is not None
    assert (answer.usage.completion_tokens, answer.usage.prompt_tokens > 8) == (16, True)
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert 0 < chunks[-1].usage.completion_tokens <= 16
