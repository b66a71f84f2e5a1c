"""Estimates of tokens from text, against counts of real tokenizers."""

import json
from pathlib import Path
from typing import Any

import pytest

from podium import Message
from podium.types.messages import estimate_usage
from podium.usage import estimate_tokens

SAMPLES = json.loads(Path(__file__).with_name("token_counts.json").read_text(encoding="utf-8"))
"""The beginning of the Universal Declaration of Human Rights, as tiktoken counts it with the vocabularies
of GPT-4 (cl100k_base) and GPT-5 (o200k_base)."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["language"])
def test_no_script_but_latin_is_undercounted(sample: dict[str, Any]) -> None:
    """Of Latin script an estimate may be somewhat low; of any other script it never is."""
    text, counted = sample["text"], max(sample["cl100k_base"], sample["o200k_base"])
    least = 0.95 if sample["language"] in {"english", "french", "german", "spanish"} else 1.0
    assert estimate_tokens(text) >= least * counted


def test_english_is_not_counted_twice() -> None:
    english = next(sample for sample in SAMPLES if sample["language"] == "english")
    assert estimate_tokens(english["text"]) <= 1.3 * english["cl100k_base"]


def test_an_estimate_counts_every_part_of_a_call() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"where": "here"}'}}
    plain = estimate_usage([Message("user", "Where is it?")], "")
    called = estimate_usage([Message("assistant", "Where is it?", (call,))], "", (call,))
    assert (plain.estimated, plain.output_tokens) == (True, 0)
    assert called.input_tokens > plain.input_tokens + 20
    assert called.output_tokens > 20
    assert estimate_tokens("\ud83d") > 0
    assert estimate_tokens("") == 0
