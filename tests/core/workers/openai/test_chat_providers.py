"""The table of providers, field by field, as a server received it; nothing here is read from the table."""

from dataclasses import replace
from typing import Any

import pytest
from servers.chat_call import ask
from servers.chat_server import Call, Reply, says

from podium.errors import ConfigError
from podium.types import Constraint, Sampling
from podium.types.messages import Tools
from podium.workers import ChatWorker, Endpoint
from podium.workers.openai.chat import chat_body
from podium.workers.openai.providers import PROVIDERS

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "string"}
GRAMMAR = 'root ::= "yes"'
FREE = {"temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 3}
"""What a model may be told that takes everything."""
FORMAT = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
    }
}
SENT: dict[str, dict[str, dict[str, Any]]] = {
    "openai": {
        "bound": {"max_completion_tokens": 64},
        "effort": {"reasoning_effort": "high"},
        "json": FORMAT,
        "grammar": {},
    },
    "anthropic": {
        "bound": {"max_tokens": 64},
        "effort": {},
        "json": {},  # its tools have objects only: see below
        "grammar": {},
    },
    "gemini": {
        "bound": {"max_tokens": 64},
        "effort": {"reasoning_effort": "high"},
        "json": FORMAT,
        "grammar": {},
    },
    "vllm": {
        "bound": {"max_tokens": 64},
        "effort": {"reasoning_effort": "high"},
        "json": {"structured_outputs": {"json": SCHEMA}},
        "grammar": {"structured_outputs": {"grammar": 'root ::= "yes"'}},
    },
    "ollama": {
        "bound": {"max_tokens": 64},
        "effort": {"reasoning_effort": "high"},
        "json": FORMAT,
        "grammar": {},
    },
    "llamacpp": {
        "bound": {"max_tokens": 64},
        "effort": {"reasoning_effort": "high"},
        "json": FORMAT,
        "grammar": {"grammar": 'root ::= "yes"'},
    },
    "compatible": {
        "bound": {"max_tokens": 64},
        "effort": {"reasoning_effort": "high"},
        "json": {},
        "grammar": {},
    },
    "openrouter": {
        "bound": {"max_tokens": 64},
        "effort": {"reasoning": {"effort": "high"}},
        "json": FORMAT,
        "grammar": {},
    },
    "fugu": {
        "bound": {"max_tokens": 64},
        "effort": {"reasoning_effort": "high"},
        "json": FORMAT,
        "grammar": {},
    },
}
ASKED = {
    "bound": Sampling(max_tokens=64),
    "effort": Sampling(effort="high"),
    "json": Sampling(constraint=Constraint("json", SCHEMA)),
    "grammar": Sampling(constraint=Constraint("grammar", GRAMMAR)),
}
SAMPLED = Sampling(temperature=0.5, top_p=0.9, stop=("END",), seed=3)
STRICT = {"seed": 3}
"""What a model may be told that reasons, at OpenAI."""
TAKEN = [
    ("openai", "gpt-4o", FREE),
    ("openai", "gpt-4.1-mini", FREE),
    ("openai", "gpt-5-chat-latest", FREE),
    ("openai", "o1", STRICT),
    ("openai", "o3-mini", STRICT),
    ("openai", "o4-mini", STRICT),
    ("openai", "gpt-5", STRICT),
    ("openai", "gpt-5.1-codex", STRICT),
    ("openai", "gpt-6", STRICT),
    ("anthropic", "claude-sonnet-4-5", {"temperature": 0.5, "top_p": 0.9, "stop": ["END"]}),
    ("anthropic", "claude-opus-4-6", {"temperature": 0.5, "top_p": 0.9, "stop": ["END"]}),
    ("anthropic", "claude-opus-4-7", {"stop": ["END"]}),
    ("anthropic", "claude-opus-4-8-20260901", {"stop": ["END"]}),
    ("anthropic", "claude-opus-5", {"stop": ["END"]}),
    ("anthropic", "claude-fable", {"stop": ["END"]}),
    ("gemini", "gemini-2.5-pro", {"temperature": 0.5, "top_p": 0.9, "stop": ["END"]}),
    ("vllm", "gpt-5", FREE),  # strictness is a provider's, not a name's
    ("ollama", "o1", FREE),
    ("llamacpp", "gpt-6", FREE),
    ("compatible", "gpt-6", FREE),
    ("openrouter", "openai/o3", FREE),
    ("fugu", "fugu-ultra", {}),
]


def _hello(call: Call) -> Reply:
    return says(call, "hello")


async def _sent(provider: str, sampling: Sampling, model: str) -> dict[str, Any]:
    """Return what a request adds to model and messages."""
    body = (await ask(_hello, provider=provider, model=model, sampling=sampling)).body
    assert body["model"] == model
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


def test_every_provider_expected_here_is_in_the_table() -> None:
    """The dialects written down here are those of known providers; `test_new_provider.py` checks all rows."""
    assert set(SENT) == {provider for provider, _, _ in TAKEN}
    assert set(SENT) <= set(PROVIDERS)


@pytest.mark.parametrize(
    ("provider", "what"), [(provider, what) for provider in SENT for what in ASKED], ids=str
)
async def test_field_names(provider: str, what: str) -> None:
    """What is asked for goes under the provider's own name, or not at all."""
    assert await _sent(provider, ASKED[what], "plain") == SENT[provider][what]


@pytest.mark.parametrize("model", ["o1", "o3", "o4-mini", "gpt-5", "gpt-6"])
@pytest.mark.parametrize("what", ASKED)
async def test_strict_models_take_bound_effort_and_form_as_others(model: str, what: str) -> None:
    """Of OpenAI's reasoning models only sampling is kept back."""
    assert await _sent("openai", ASKED[what], model) == SENT["openai"][what]


@pytest.mark.parametrize(("provider", "model", "taken"), TAKEN, ids=lambda value: str(value)[:24])
async def test_sampling(provider: str, model: str, taken: dict[str, Any]) -> None:
    """Each model is sent what it takes of temperature, top_p, stop and seed, and no more."""
    assert await _sent(provider, SAMPLED, model) == taken


_CLOSED = {"type": "object", "properties": {"n": {}}, "required": ["n"], "additionalProperties": False}
_LOOSE = {"type": "object", "properties": {"n": {}}}


@pytest.mark.parametrize(("schema", "strict"), [(_CLOSED, True), (_LOOSE, False)])
async def test_a_schema_is_strict_where_it_can_be(schema: dict[str, Any], *, strict: bool) -> None:
    """OpenAI refuses a strict schema that is not closed and whole; any object has a mode of its own."""
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}
    for asked, sent in ((schema, form), ({"type": "object"}, {"type": "json_object"})):
        sampling = Sampling(constraint=Constraint("json", asked))
        assert await _sent("openai", sampling, "m") == {"response_format": sent}


@pytest.mark.parametrize(
    ("provider", "kinds"),
    [
        ("vllm", {"json", "grammar"}),
        ("openai", {"json"}),
        ("llamacpp", {"json", "grammar"}),
        ("anthropic", {"json"}),
        ("compatible", set()),
    ],
)
async def test_says_which_constraints_it_keeps(provider: str, kinds: set[str]) -> None:
    """A worker states what its server can hold a text to."""
    worker = ChatWorker("m", endpoint=Endpoint("http://localhost:1/v1", provider=provider))
    assert worker.constraint_kinds == kinds


@pytest.mark.parametrize("stream", [False, True])
async def test_the_arguments_of_a_forced_tool_are_the_answer(*, stream: bool) -> None:
    """Where a server knows only tools; the caller's own tools, and other constraints, go before it."""
    function = {"name": "answer", "arguments": '{"n": 1}'}
    calls = [{"id": "1", "type": "function", "function": function}]

    def reply(call: Call) -> Reply:
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")

    sampling = Sampling(constraint=Constraint("json", _CLOSED))
    asked = await ask(reply, provider="anthropic", sampling=sampling, stream=stream)
    tool = {"type": "function", "function": {"name": "answer", "parameters": _CLOSED}}
    assert asked.body["tools"] == [tool]
    assert asked.body["tool_choice"] == {"type": "function", "function": {"name": "answer"}}
    completion = asked.completion
    assert (completion.text, completion.finish_reason, completion.tool_calls) == ('{"n": 1}', "stop", ())
    own = Tools(({"type": "function", "function": {"name": "answer"}},))
    body = chat_body(PROVIDERS["anthropic"], "m", (), sampling, stream=False, tools=own)
    assert (body["tools"], "tool_choice" in body) == (list(own.offered), False)


async def test_takes_a_row_of_ones_own() -> None:
    """A provider that is not in the table is described by a row."""
    row = replace(PROVIDERS["openai"], name="mine", max_tokens="max_tokens")
    asked = await ask(_hello, provider=row, sampling=Sampling(max_tokens=5))
    assert asked.body["max_tokens"] == 5


async def test_asks_for_no_stream_options_where_they_are_refused() -> None:
    """A provider that refuses `stream_options` is not sent any."""
    row = replace(PROVIDERS["openai"], name="mine", omitted=frozenset({"stream_options"}))
    asked = await ask(_hello, provider=row, stream=True)
    assert "stream_options" not in asked.body
    assert asked.completion.usage.estimated


async def test_names_the_providers_it_knows() -> None:
    """An unknown provider is refused with the known ones."""
    with pytest.raises(ConfigError, match=r"provider 'acme' is unknown.*vllm"):
        Endpoint("http://localhost:1/v1", provider="acme")
