"""What providers differ in, as it goes on the wire."""

from dataclasses import replace
from typing import Any

import pytest
from servers.chat_call import ask
from servers.chat_server import Call, Reply, says

from podium.errors import ConfigError
from podium.types import Constraint, Sampling
from podium.workers import ChatWorker, Endpoint
from podium.workers.openai.providers import PROVIDERS

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
LOOSE = {"type": "object", "properties": {"n": {"type": "integer"}}}
ANY = {"type": "object"}
GRAMMAR = 'root ::= "yes"'
EVERYTHING = Sampling(temperature=0.5, top_p=0.9, max_tokens=64, stop=("END",), seed=3, effort="high")


def hello(call: Call) -> Reply:
    """Answer in a word."""
    return says(call, "hello")


async def sent(provider: str, sampling: Sampling, model: str = "m") -> dict[str, Any]:
    """Return what a request adds to model and messages."""
    body = (await ask(hello, provider=provider, model=model, sampling=sampling)).body
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


@pytest.mark.anyio
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_every_provider_takes_a_bound(provider: str) -> None:
    """The bound on an answer is sent under exactly one name."""
    body = await sent(provider, Sampling(max_tokens=64))
    assert body in ({"max_tokens": 64}, {"max_completion_tokens": 64})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "model", "missing"),
    [
        ("openai", "gpt-4.1", set()),
        ("openai", "gpt-5-chat-latest", set()),
        ("openai", "gpt-5-mini", {"temperature", "top_p", "stop"}),
        ("openai", "o4-mini", {"temperature", "top_p", "stop"}),
        ("anthropic", "claude-sonnet-4-5", {"seed"}),
        ("anthropic", "claude-opus-4-7", {"seed", "temperature", "top_p"}),
        ("gemini", "gemini-3-flash", {"seed"}),
        ("vllm", "qwen", set()),
        ("ollama", "qwen", set()),
        ("llamacpp", "qwen", set()),
        ("openrouter", "openai/gpt-5", set()),
        ("fugu", "fugu-ultra", {"temperature", "top_p", "stop", "seed"}),
    ],
)
async def test_leaves_out_what_is_refused(provider: str, model: str, missing: set[str]) -> None:
    """Fields that a provider or a model refuses are not sent; all others are."""
    body = await sent(provider, EVERYTHING, model)
    assert {"temperature", "top_p", "stop", "seed"} - body.keys() == missing


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "field"),
    [
        ("openai", {"reasoning_effort": "high"}),
        ("openrouter", {"reasoning": {"effort": "high"}}),
        ("fugu", {"reasoning_effort": "high"}),
        ("anthropic", {}),
    ],
)
async def test_sends_effort_as_the_provider_takes_it(provider: str, field: dict[str, Any]) -> None:
    """Reasoning effort has its own form with each provider, or none."""
    assert await sent(provider, Sampling(effort="high")) == field


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "constraint", "field"),
    [
        ("vllm", Constraint("json", SCHEMA), {"structured_outputs": {"json": SCHEMA}}),
        ("vllm", Constraint("grammar", GRAMMAR), {"structured_outputs": {"grammar": GRAMMAR}}),
        ("llamacpp", Constraint("grammar", GRAMMAR), {"grammar": GRAMMAR}),
        (
            "openai",
            Constraint("json", SCHEMA),
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
                }
            },
        ),
        (
            "openai",
            Constraint("json", LOOSE),
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": LOOSE, "strict": False},
                }
            },
        ),
        ("openai", Constraint("json", ANY), {"response_format": {"type": "json_object"}}),
        ("anthropic", Constraint("json", SCHEMA), {}),
    ],
)
async def test_asks_for_constraints(provider: str, constraint: Constraint, field: dict[str, Any]) -> None:
    """A constraint is asked for as the server understands it, and else left out."""
    assert await sent(provider, Sampling(constraint=constraint)) == field


@pytest.mark.parametrize(
    ("provider", "kinds"),
    [
        ("vllm", {"json", "grammar"}),
        ("openai", {"json"}),
        ("llamacpp", {"json", "grammar"}),
        ("anthropic", set()),
    ],
)
def test_says_which_constraints_it_keeps(provider: str, kinds: set[str]) -> None:
    """A worker states what its server can hold a text to."""
    worker = ChatWorker("m", endpoint=Endpoint("http://localhost:1/v1", provider=provider))
    assert worker.constraint_kinds == kinds


@pytest.mark.anyio
async def test_takes_a_row_of_ones_own() -> None:
    """A provider that is not in the table is described by a row."""
    row = replace(PROVIDERS["openai"], name="mine", max_tokens="max_tokens")
    asked = await ask(hello, provider=row, sampling=Sampling(max_tokens=5))
    assert asked.body["max_tokens"] == 5


@pytest.mark.anyio
async def test_asks_for_no_stream_options_where_they_are_refused() -> None:
    """A provider that refuses `stream_options` is not sent any."""
    row = replace(PROVIDERS["openai"], name="mine", omitted=frozenset({"stream_options"}))
    asked = await ask(hello, provider=row, stream=True)
    assert "stream_options" not in asked.body
    assert asked.completion.usage.estimated


def test_names_the_providers_it_knows() -> None:
    """An unknown provider is refused with the known ones."""
    with pytest.raises(ConfigError, match=r"provider 'acme' is unknown.*vllm"):
        Endpoint("http://localhost:1/v1", provider="acme")
