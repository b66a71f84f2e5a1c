"""The table of providers, field by field, as a server received it; nothing here is read from the table."""

from typing import Any

import pytest
from servers.chat_call import ask
from servers.chat_server import Call, Reply, says

from podium import Sampling
from podium.types import Constraint
from podium.types.messages import Tools
from podium.workers.openai.chat import chat_body
from podium.workers.openai.providers import PROVIDERS

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "string"}
GRAMMAR = 'root ::= "yes"'
FREE = {"temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 3}
"""What a model may be told that takes everything."""
NO_SEED = {"temperature": 0.5, "top_p": 0.9, "stop": ["END"]}
FORM = {"name": "answer", "schema": SCHEMA, "strict": True}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": FORM}}
USUAL: dict[str, dict[str, Any]] = {"bound": {"max_tokens": 64}, "effort": {"reasoning_effort": "high"}}
USUAL |= {"json": FORMAT, "grammar": {}}
HELD = (("json", SCHEMA), ("grammar", GRAMMAR))
SENT = {
    "openai": USUAL | {"bound": {"max_completion_tokens": 64}},
    "anthropic": USUAL | {"effort": {}, "json": {}},  # its tools have objects only: see below
    "gemini": USUAL,
    "vllm": USUAL | {name: {"structured_outputs": {name: form}} for name, form in HELD},
    "ollama": USUAL,
    "llamacpp": USUAL | {"grammar": {"grammar": GRAMMAR}},
    "compatible": USUAL | {"json": {}},
    "openrouter": USUAL | {"effort": {"reasoning": {"effort": "high"}}},
    "fugu": USUAL,
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
    ("openai", "gpt-4.1-mini", FREE),
    ("openai", "gpt-5-chat-latest", FREE),
    ("openai", "o1", STRICT),
    ("openai", "o4-mini", STRICT),
    ("openai", "gpt-5.1-codex", STRICT),
    ("openai", "gpt-6", STRICT),
    ("anthropic", "claude-opus-4-6", NO_SEED),
    ("anthropic", "claude-opus-4-7", {"stop": ["END"]}),
    ("anthropic", "claude-opus-4-8-20260901", {"stop": ["END"]}),
    ("anthropic", "claude-fable", {"stop": ["END"]}),
    ("gemini", "gemini-2.5-pro", NO_SEED),
    ("vllm", "gpt-5", FREE),  # strictness is a provider's, not a name's
    ("ollama", "o1", FREE),
    ("llamacpp", "gpt-6", FREE),
    ("compatible", "gpt-6", FREE),
    ("openrouter", "openai/o3", FREE),
    ("fugu", "fugu-ultra", {}),
]
_CLOSED = {"type": "object", "properties": {"n": {}}, "required": ["n"], "additionalProperties": False}
_LOOSE = {"type": "object", "properties": {"n": {}}}


def _hello(call: Call) -> Reply:
    return says(call, "hello")


async def _sent(provider: str, sampling: Sampling, model: str) -> dict[str, Any]:
    body = (await ask(_hello, provider=provider, model=model, sampling=sampling)).body
    assert body["model"] == model
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


@pytest.mark.parametrize("provider", SENT)
async def test_field_names(provider: str) -> None:
    assert {what: await _sent(provider, ASKED[what], "plain") for what in ASKED} == SENT[provider]
    if provider == "openai":  # of reasoning models only sampling is kept back
        assert {what: await _sent(provider, ASKED[what], "gpt-5") for what in ASKED} == SENT[provider]


@pytest.mark.parametrize(("provider", "model", "taken"), TAKEN, ids=lambda value: str(value)[:24])
async def test_sampling(provider: str, model: str, taken: dict[str, Any]) -> None:
    assert await _sent(provider, SAMPLED, model) == taken


@pytest.mark.parametrize(("schema", "strict"), [(_CLOSED, True), (_LOOSE, False)])
async def test_a_schema_is_strict_where_it_can_be(schema: dict[str, Any], *, strict: bool) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}
    for asked, sent in ((schema, form), ({"type": "object"}, {"type": "json_object"})):
        sampling = Sampling(constraint=Constraint("json", asked))
        assert await _sent("openai", sampling, "m") == {"response_format": sent}


@pytest.mark.parametrize("stream", [False, True])
async def test_the_arguments_of_a_forced_tool_are_the_answer(*, stream: bool) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "answer", "arguments": '{"n": 1}'}}]

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
