"""The dialects in which servers report tokens."""

from typing import Any

import pytest

from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage

OPENAI = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 30},
}
TOO_MUCH = {
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "prompt_tokens_details": {"cached_tokens": 9},
    "completion_tokens_details": {"reasoning_tokens": 9},
}
DEEPSEEK = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}
ANTHROPIC = {
    "input_tokens": 10,
    "output_tokens": 5,
    "cache_read_input_tokens": 90,
    "cache_creation_input_tokens": 20,
}
GEMINI = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}
GROK = {**GEMINI, "completion_tokens_details": {"reasoning_tokens": 25}}
FUGU_RESPONSES = {
    "input_tokens": 20,
    "output_tokens": 7,
    "total_tokens": 66,
    "input_tokens_details": {
        "cached_tokens": 2,
        "orchestration_input_tokens": 30,
        "orchestration_input_cached_tokens": 3,
    },
    "output_tokens_details": {"orchestration_output_tokens": 6, "reasoning_tokens": 1},
}
ORCHESTRATION = {"orchestration_input_tokens": 30, "orchestration_output_tokens": 6}
FUGU_FLAT = {"prompt_tokens": 20, "completion_tokens": 7} | ORCHESTRATION
FUGU_NESTED = {"prompt_tokens": 20, "completion_tokens": 7, "token_details": ORCHESTRATION}


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        pytest.param(OPENAI, Usage(100, 50, 64, 30), id="openai"),
        pytest.param(DEEPSEEK, Usage(9, 2, 4), id="deepseek"),
        pytest.param(ANTHROPIC, Usage(120, 5, 90), id="anthropic counts cached input apart"),
        pytest.param(GEMINI, Usage(10, 30, 0, 25), id="gemini counts reasoning in the total alone"),
        pytest.param(GROK, Usage(10, 30, 0, 25), id="grok counts reasoning apart"),
        pytest.param(FUGU_RESPONSES, Usage(20, 7, 2, 1, 30, 6, 3), id="fugu responses"),
        pytest.param(FUGU_FLAT, Usage(20, 7, 0, 0, 30, 6), id="fugu flat"),
        pytest.param(FUGU_NESTED, Usage(20, 7, 0, 0, 30, 6), id="fugu nested"),
        pytest.param(TOO_MUCH, Usage(3, 11, 0, 9), id="parts above the whole: no discount, reasoning apart"),
        pytest.param(TOO_MUCH | {"total_tokens": 5}, None, id="the total says that reasoning is in it"),
    ],
)
def test_reads_a_dialect(raw: dict[str, Any], usage: Usage | None) -> None:
    """Every provider's counts come to the same fields."""
    assert read_usage(raw) == usage


@pytest.mark.parametrize(
    "raw",
    [None, [], "12", {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": 10**30},
     {"prompt_tokens": 7}, {"completion_tokens": 7}, {"prompt_tokens": 7, "completion_tokens": "9"},
     {"prompt_tokens": 7, "completion_tokens": float("nan")}, {"input_tokens": 7, "output_tokens": None},
     {"prompt_tokens": 7, "completion_tokens": True}, {"prompt_tokens": 7, "completion_tokens": -1}]
)  # fmt: skip
def test_takes_no_nonsense(raw: object) -> None:
    """What is no usage is none, so that it gets estimated."""
    assert read_usage(raw) is None
