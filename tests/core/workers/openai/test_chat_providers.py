"""The table of providers, field by field, as a server received it; nothing here is read from the table."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from servers.chat_call import ask
from servers.chat_server import Call, Reply, says

import podium
from podium.config import load_config
from podium.errors import ConfigError
from podium.secrets import scrub
from podium.telemetry.trace import describe
from podium.types import Constraint, Sampling
from podium.types.messages import Tools
from podium.workers import ChatWorker, Endpoint, Timeouts
from podium.workers.openai import providers
from podium.workers.openai.chat import chat_body
from podium.workers.openai.providers import PROVIDERS, Provider

pytestmark = pytest.mark.anyio

ROOT = Path(podium.__file__).parent
SCHEMA = {"type": "string"}
GRAMMAR = 'root ::= "yes"'
FREE = {"temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 3}
"""What a model may be told that takes everything."""
NO_SEED = {"temperature": 0.5, "top_p": 0.9, "stop": ["END"]}
FORM = {"name": "answer", "schema": SCHEMA, "strict": True}
FORMAT = {"response_format": {"type": "json_schema", "json_schema": FORM}}
USUAL: dict[str, dict[str, Any]] = {
    "bound": {"max_tokens": 64},
    "effort": {"reasoning_effort": "high"},
    "json": FORMAT,
    "grammar": {},
}
SENT = {
    "openai": USUAL | {"bound": {"max_completion_tokens": 64}},
    "anthropic": USUAL | {"effort": {}, "json": {}},  # its tools have objects only: see below
    "gemini": USUAL,
    "vllm": USUAL
    | {
        "json": {"structured_outputs": {"json": SCHEMA}},
        "grammar": {"structured_outputs": {"grammar": GRAMMAR}},
    },
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


def _hello(call: Call) -> Reply:
    return says(call, "hello")


async def _sent(provider: str, sampling: Sampling, model: str) -> dict[str, Any]:
    """Return what a request adds to model and messages."""
    body = (await ask(_hello, provider=provider, model=model, sampling=sampling)).body
    assert body["model"] == model
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


@pytest.mark.parametrize("provider", SENT)
async def test_field_names(provider: str) -> None:
    """What is asked for goes under the provider's own name, or not at all."""
    assert {what: await _sent(provider, ASKED[what], "plain") for what in ASKED} == SENT[provider]
    if provider == "openai":  # of reasoning models only sampling is kept back
        assert {what: await _sent(provider, ASKED[what], "gpt-5") for what in ASKED} == SENT[provider]


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


async def test_a_new_row_of_the_table_is_all_that_a_provider_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files take its name; requests, waits, spans, and what is secret follow it."""
    row = Provider(
        name="acme",
        telemetry_name="acme.ai",
        public_headers=frozenset({"x-acme-app"}),
        max_tokens="max_completion_tokens",
        constraints={"json": "response_format"},
        timeouts=Timeouts(idle=7.0),
        omitted=frozenset({"seed"}),
    )
    monkeypatch.setitem(cast("dict[str, Provider]", PROVIDERS), row.name, row)
    path = tmp_path / "podium.toml"
    path.write_text(
        '[endpoints.there]\nbase_url = "http://localhost:8000/v1"\nprovider = "acme"\n'
        '[workers.solver]\nendpoint = "there"\nmodel = "m"\n[planner]\nworker = "solver"\n'
    )
    worker = load_config(path).worker("solver")
    assert isinstance(worker, ChatWorker)
    assert (worker.endpoint.provider, worker.endpoint.timeouts.idle) == (row, 7.0)
    assert worker.constraint_kinds == {"json"}
    assert describe(worker, "m")[1]["gen_ai.provider.name"] == "acme.ai"
    sent = await _sent("acme", replace(SAMPLED, max_tokens=64), "m")
    assert sent == NO_SEED | {"max_completion_tokens": 64}
    headers = {"X-Acme-App": "our-own-application", "X-Acme-Pass": "a-pass-nobody-knows"}
    Endpoint("http://localhost:1/v1", provider="acme", headers=headers)
    assert scrub(" ".join(headers.values())) == "our-own-application [secret]"
    with pytest.raises(ConfigError, match=r"provider 'other' is unknown.*acme"):
        Endpoint("http://localhost:1/v1", provider="other")


@pytest.mark.parametrize("name", PROVIDERS)
async def test_every_row_is_spoken_to_as_it_says(name: str) -> None:
    """Whatever the table holds: a field that a row omits is not sent, every other one is."""
    row = PROVIDERS[name]
    form = Constraint("json", {"type": "object"})
    sampling = replace(SAMPLED, max_tokens=64, effort="high", constraint=form)
    body = (await ask(_hello, provider=name, sampling=sampling, stream=True)).body
    assert row.name == name
    assert body[row.max_tokens] == 64
    assert (row.effort is None) is not (row.effort in body)
    fields = {"temperature", "top_p", "stop", "seed", "stream_options"}
    assert body.keys() & fields == fields - row.omits("m")
    assert body.keys() >= {field for kind, field in row.constraints.items() if kind == "json"}


@pytest.mark.long
def test_no_other_module_names_a_provider() -> None:
    """A new row is found by all that could ask for it, since none of them has a list of its own."""
    names = PROVIDERS.keys() - {"podium"}  # the name of much else
    others = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }
    others.remove(Path(providers.__file__).relative_to(ROOT).as_posix())
    of_presets = {"cli/init.py", "config/sections.py", "workers/command.py"}  # and the name of a model
    assert others == of_presets | {"hosts/openai.py"}  # a package to import
