"""Models of `[models]`: presets, efforts, what clients see, and workers with the fields of their provider."""

from pathlib import Path
from typing import Any

import openai
import pytest
from server.scene import ASKED, Serve, called
from servers.chat_server import USAGE, Call, ChatServer, Reply, events, says, whole
from servers.podium_server import Served

from podium.errors import ConfigError

ONE = '{"worker": 0, "subtask": "Answer.", "access": []}\n'


def progress(served: Served, model: str, **options: Any) -> str:
    answer = served.client().chat.completions.create(model=model, messages=ASKED, **options)
    return getattr(answer.choices[0].message, "reasoning_content", "")


@pytest.mark.parametrize(("table", "worker"), [("", "three"), ('direct = "one"\n', "one")])
def test_a_simple_question(table: str, worker: str, serve: Serve, upstream: ChatServer) -> None:
    """One of several workers that could answer it does."""
    card = 'endpoint = "here"\ndescription = "Answers anything."\n'
    more = f'[workers.three]\nmodel = "three"\n{card}price = {{ input = 2.0, output = 2.0 }}\n'
    served = serve(models=f'{more}[models.quick]\npreset = "mini"\n{table}')
    assert served.client().models.list().data[0].workers == ["one", "three"]  # type: ignore[attr-defined]
    served.client().chat.completions.create(model="quick", messages=ASKED)
    assert called(upstream) == [worker]


def test_ultra_improves_a_rejected_answer(serve: Serve, upstream: ChatServer) -> None:
    answers, plans = iter(["bad", "good", "bad"]), iter([ONE, ONE.replace("Answer", "Try again"), ONE])

    def reply(call: Call) -> Reply:
        prompt = str(call.body["messages"])
        match call.body["model"]:
            case "planner":
                return says(call, next(plans))
            case "two":
                return says(call, "NO, it is bad" if "bad" in prompt else "YES")
        return says(call, next(answers))

    upstream.reply = reply
    served = serve(models='[models.deep]\npreset = "ultra"\naccept = "two"\n')
    client = served.client()
    answer = client.chat.completions.create(model="deep", messages=ASKED)
    assert answer.choices[0].message.content == "good"
    assert "Round 2" in answer.choices[0].message.reasoning_content  # type: ignore[attr-defined]
    asked: Any = {"model": "deep", "messages": ASKED, "reasoning_effort": "minimal"}
    raw = client.chat.completions.with_raw_response.create(**asked)
    assert raw.headers["x-podium-effort"] == "low"
    assert (raw.parse().choices[0].message.content or "").startswith("bad\n\n(Not complete: ")
    assert raw.parse().podium["status"] == "partial"  # type: ignore[attr-defined]


def test_what_a_client_sees(serve: Serve) -> None:
    """Nothing, the steps, or also their outputs; never the output of the last step."""
    tables = "".join(f'[models.{show}]\nshow = "{show}"\n' for show in ("none", "steps", "all"))
    served = serve(models=tables)
    assert progress(served, "none") == ""
    assert "facts" not in progress(served, "steps").replace("Collect facts", "")
    stream = served.client().chat.completions.create(model="all", messages=ASKED, stream=True)
    deltas = [chunk.choices[0].delta for chunk in stream]
    told = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert "Step 0 writes:\nfacts\nStep 0: ok" in told
    assert "the answer" not in told.replace("Write the answer", "")


WRONG = [
    ('[models.a]\nworker = "three"\n', "'worker' in [models.a] names 'three'"),
    ("[models.a]\nworkers = []\n", "'workers' in [models.a]"),
    ('[models.a]\nworker = "one"\npreset = "mini"\n', "has no effect with 'worker'"),
    ('[models.a]\npreset = "huge"\n', "write one of 'mini' or 'ultra'"),
    ("[models.a.limits]\nstep = 3\n", "unknown limit 'step'"),
    ("[models.a.limits]\nsteps = 0\n", "limit steps is 0"),
    ('[models.a]\ndirect = "three"\n', "'direct' in [models.a] names 'three'"),
    ('[models.a]\ncodex_instructions = "none.md"\n', "'codex_instructions' in [models.a] cannot be read"),
    ("[models.a]\nshow = true\n", "write one of 'none', 'steps' or 'all'"),
    ('[models."a b"]\npreset = "mini"\n', "a b"),
    ("[models.a]\nsho = 'all'\n", "did you mean 'show'?"),
    ('[models.a.efforts.huge]\nworker = "x"\n', "huge"),
]


def test_a_wrong_table_is_refused(serve: Serve) -> None:
    for models, told in WRONG:
        with pytest.raises(ConfigError) as caught:
            serve(models=models)
        assert told in str(caught.value)
        assert "podium.toml" in str(caught.value)


def test_versions_and_limits_of_models(serve: Serve) -> None:
    table = '[models.a]\nworkers = ["one"]\n[models.b]\nworkers = ["two"]\n[models.c]\nversion = "7"\n'
    client = serve(models=table + "[models.small.limits]\ncost = 0.0000001\n").client()
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.chat.completions.create(model="small", messages=ASKED)
    assert caught.value.code in ("limit", "planner_limit")
    models = client.models.list().data
    versions = [model.version for model in models]  # type: ignore[attr-defined]
    assert versions[0][2:] != versions[1][2:]
    assert versions[2] == "c-7"


def test_the_list_for_codex(serve: Serve, tmp_path: Path) -> None:
    """It has the models with instructions for Codex, with all fields that Codex requires.

    The fields are those of `ModelInfo` in `codex-rs/protocol/src/openai_models.rs` without a default.
    """
    (tmp_path / "prompt.md").write_text("You are a coding agent.")
    table = '[models.deep]\npreset = "ultra"\ncodex_instructions = "prompt.md"\n[models.plain]\n'
    client = serve(models=table).http()
    listed = client.get("/models?client_version=0.169.0").json()
    assert [model["id"] for model in listed["data"]] == ["deep", "plain"]
    (entry,) = listed["models"]
    assert (entry["slug"], entry["base_instructions"]) == ("deep", "You are a coding agent.")
    levels = [level["effort"] for level in entry["supported_reasoning_levels"]]
    assert (levels, entry["default_reasoning_level"]) == (["low", "medium", "high"], "high")
    required = "display_name shell_type visibility supported_in_api priority supports_reasoning_summaries"
    more = "support_verbosity truncation_policy supports_parallel_tool_calls experimental_supported_tools"
    assert {*required.split(), *more.split()} <= entry.keys()
    assert "models" not in client.get("/models").json()


def test_efforts(serve: Serve, upstream: ChatServer) -> None:
    models = '[models.team]\n[models.raw]\nworker = "two"\nefforts.high.worker = "deep"\n'
    client = serve(models=models).client()
    for effort in ("none", "ultra"):
        client.chat.completions.create(model="team", messages=ASKED, extra_body={"reasoning_effort": effort})
    assert all("reasoning_effort" not in call.body for call in upstream.calls)
    client.chat.completions.create(model="raw", messages=ASKED, reasoning_effort="low")
    assert upstream.calls[-1].body["reasoning_effort"] == "deep"


MODELS = """
[workers.narrow]
endpoint = "here"
model = "narrow"
concurrency = 2
price = { input = 1.0, output = 2.0 }

[retry]
attempts = 1
break_after = 2
break_seconds = 60

[models.first]
workers = ["narrow"]

[models.second]
worker = "narrow"
"""


def test_a_circuit_breaker_holds_for_all_models(serve: Serve, upstream: ChatServer) -> None:
    client = serve(models=MODELS).client()
    busy = whole({}, status=503)
    upstream.reply = lambda call: says(call, ONE) if call.body["model"] == "planner" else busy
    for calls in (1, 2, 2):
        with pytest.raises(openai.APIStatusError):
            client.chat.completions.create(model="second", messages=ASKED)
        assert len(upstream.calls) == calls
    with pytest.raises(openai.APIStatusError):
        client.chat.completions.create(model="first", messages=ASKED)
    assert called(upstream) == ["narrow", "narrow", "planner"]


RAW = '[models.raw]\nworker = "two"\n'
LIKELY = {"content": [{"token": "one", "logprob": -0.5, "bytes": None, "top_logprobs": []}], "refusal": None}
NAMED: dict[str, Any] = {
    "n": 2,
    "logprobs": True,
    "top_logprobs": 2,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "logit_bias": {"50256": -100},
    "verbosity": "low",
    "reasoning_effort": "minimal",
}
OWN = {"top_k": 3, "chat_template_kwargs": {"enable_thinking": False}}


def two_answers(call: Call) -> Reply:
    """Answer with two choices, whole or streamed, and with the log probabilities of the first."""
    end: dict[str, Any] = {"finish_reason": "stop"}
    if not call.body.get("stream"):
        said = [{"role": "assistant", "content": text} for text in ("one", "other")]
        choices = [{"index": index, "message": each, **end} for index, each in enumerate(said)]
        choices[0]["logprobs"] = LIKELY
        return whole({"choices": choices, "model": "two-0", "usage": USAGE})
    pieces = [(1, "oth", None, {}), (0, "one", LIKELY, {}), (1, "er", None, end), (0, "", None, end)]
    chunks = [
        {"choices": [{"index": index, "delta": {"content": text}, "logprobs": known, **more}]}
        for index, text, known, more in pieces
    ]
    return events(*chunks, {"choices": [], "usage": USAGE})


def test_allowed_tools(serve: Serve, upstream: ChatServer) -> None:
    upstream.reply = lambda call: says(call, "done")
    tools: Any = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in "abc"]
    named = [{"type": "function", "function": {"name": name}} for name in ("b", "c")]
    choice: Any = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": named}}
    client = serve(models=RAW).client()
    client.chat.completions.create(model="raw", messages=ASKED, tools=tools, tool_choice=choice)
    sent = upstream.calls[0].body
    assert ([tool["function"]["name"] for tool in sent["tools"]], sent["tool_choice"]) == (["b", "c"], "auto")
    named.append({"type": "function", "function": {"name": "d"}})
    with pytest.raises(openai.BadRequestError, match="the tools are a, b, c"):
        client.chat.completions.create(model="raw", messages=ASKED, tools=tools, tool_choice=choice)


def test_fields_of_the_provider(serve: Serve, upstream: ChatServer) -> None:
    upstream.reply = two_answers
    client = serve(models=RAW).client()
    answer: Any = client.chat.completions.create(model="raw", messages=ASKED, extra_body=OWN, **NAMED)
    assert (NAMED | OWN).items() <= upstream.calls[0].body.items()
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [(0, "one"), (1, "other")]
    assert answer.choices[0].logprobs.to_dict() == LIKELY
    assert answer.usage.completion_tokens == USAGE["completion_tokens"]
    with client.chat.completions.stream(model="raw", messages=ASKED, n=2, logprobs=True) as stream:
        answer = stream.get_final_completion()
    assert {choice.index: choice.message.content for choice in answer.choices} == {0: "one", 1: "other"}
    assert [each.token for each in answer.choices[0].logprobs.content] == ["one"]


def test_refused_fields(serve: Serve, upstream: ChatServer) -> None:
    """By a conductor, whose plan could not honour them; by the provider, in its words without its address."""
    told = {"error": {"message": "n must be at most 8 here", "code": "bad_n"}}
    upstream.reply = lambda _: whole(told, status=422)
    client = serve(models=f'{RAW}efforts.high.worker = "deep"\n[models.team]\n').client()
    for key in ("n", "top_k"):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="team", messages=ASKED, extra_body={key: 2})
        assert caught.value.param == key
    more = {"top_k": 3, "reasoning_effort": "huge"}
    with pytest.raises(openai.BadRequestError, match="'huge' is unknown: write none, minimal"):
        client.chat.completions.create(model="raw", messages=ASKED, extra_body=more)
    assert not upstream.calls
    with pytest.raises(openai.BadRequestError, match="n must be at most 8 here") as caught:
        client.chat.completions.create(model="raw", messages=ASKED, n=9)
    assert caught.value.code == "worker_refused"
    assert upstream.url not in str(caught.value)
