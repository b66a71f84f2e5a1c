"""Models of `[models]`: presets, workers as themselves and shared, efforts, and what clients see."""

from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, Serve
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served

from podium.errors import ConfigError

ONE = '{"worker": 0, "subtask": "Answer.", "access": []}\n'


def progress(served: Served, model: str, **options: Any) -> str:
    answer = served.client().chat.completions.create(model=model, messages=ASKED, **options)
    return getattr(answer.choices[0].message, "reasoning_content", "")


@pytest.mark.parametrize(
    ("table", "worker"), [("", "three"), ('direct = "one"\n', "one")], ids=["", "direct"]
)
def test_a_simple_question_for_several_workers(
    table: str, worker: str, serve: Serve, upstream: ChatServer
) -> None:
    card = 'endpoint = "here"\ndescription = "Answers anything."\n'
    more = f'[workers.three]\nmodel = "three"\n{card}price = {{ input = 2.0, output = 2.0 }}\n'
    served = serve(models=f'{more}[models.quick]\npreset = "mini"\n{table}')
    assert served.client().models.list().data[0].workers == ["one", "three"]  # type: ignore[attr-defined]
    served.client().chat.completions.create(model="quick", messages=ASKED)
    assert [call.body["model"] for call in upstream.calls] == [worker]


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
    raw = client.chat.completions.with_raw_response.create(
        model="deep", messages=ASKED, reasoning_effort="minimal"
    )
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


def test_limits_of_a_model(serve: Serve) -> None:
    served = serve(models="[models.small.limits]\ncost = 0.0000001\n")
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        served.client().chat.completions.create(model="small", messages=ASKED)
    assert caught.value.code in ("limit", "planner_limit")


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


def test_the_version_changes_with_the_workers(serve: Serve) -> None:
    table = '[models.a]\nworkers = ["one"]\n[models.b]\nworkers = ["two"]\n[models.c]\nversion = "7"\n'
    models = serve(models=table).client().models.list().data
    versions = [model.version for model in models]  # type: ignore[attr-defined]
    assert versions[0][2:] != versions[1][2:]
    assert versions[2] == "c-7"


def test_the_list_for_codex(serve: Serve, tmp_path: Path) -> None:
    """It has the models with instructions for Codex, with all fields that Codex requires.

    The fields are those of `ModelInfo` in `codex-rs/protocol/src/openai_models.rs` without a default.
    """
    (tmp_path / "prompt.md").write_text("You are a coding agent.")
    table = '[models.deep]\npreset = "ultra"\ncodex_instructions = "prompt.md"\n[models.plain]\n'
    served = serve(models=table)
    listed = httpx2.get(f"{served.url}/models?client_version=0.169.0").json()
    assert [model["id"] for model in listed["data"]] == ["deep", "plain"]
    (entry,) = listed["models"]
    assert entry["slug"] == "deep"
    assert entry["base_instructions"] == "You are a coding agent."
    levels = [level["effort"] for level in entry["supported_reasoning_levels"]]
    assert (levels, entry["default_reasoning_level"]) == (["low", "medium", "high"], "high")
    required = "display_name shell_type visibility supported_in_api priority supports_reasoning_summaries"
    more = "support_verbosity truncation_policy supports_parallel_tool_calls experimental_supported_tools"
    assert {*required.split(), *more.split()} <= entry.keys()
    assert "models" not in httpx2.get(f"{served.url}/models").json()


def test_efforts(serve: Serve, upstream: ChatServer) -> None:
    client = serve(
        models='[models.team]\n[models.raw]\nworker = "two"\nefforts.high.worker = "deep"\n'
    ).client()
    for effort in ("none", "ultra"):
        given = {"reasoning_effort": effort}
        client.chat.completions.create(model="team", messages=ASKED, extra_body=given)
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

[models.judged]
workers = ["one"]
accept = "narrow"
"""
BUSY = whole({}, status=503)


@pytest.fixture
def client(serve: Serve) -> openai.OpenAI:
    return serve(models=MODELS).client()


def test_a_circuit_breaker_holds_for_all_models(client: openai.OpenAI, upstream: ChatServer) -> None:
    upstream.reply = lambda call: says(call, ONE) if call.body["model"] == "planner" else BUSY
    for calls in (1, 2, 2):
        with pytest.raises(openai.APIStatusError):
            client.chat.completions.create(model="second", messages=ASKED)
        assert len(upstream.calls) == calls
    with pytest.raises(openai.APIStatusError):
        client.chat.completions.create(model="first", messages=ASKED)
    assert [call.body["model"] for call in upstream.calls] == ["narrow", "narrow", "planner"]
