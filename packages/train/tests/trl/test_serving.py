"""A trained conductor behind llama.cpp's server: train, export, serve, plan, run."""

import json
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import torch
from servers.chat_server import ChatServer, says
from servers.small_model import small_model, weights
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl_base import PLAN, QUIET, make_base

from podium.config import load_config
from podium.errors import ConfigError
from podium_train.export import FACTS_FILE
from podium_train.recipe import environment_of, load_recipe, messages_of
from podium_train.trl import write_gguf, write_gguf_base, write_small_base

RECIPE = """
folder = "run"
environment = {{ type = "python", factory = "tiny_conductor.world:Workshop" }}
model = {{ base = "base", dtype = "float32" }}
[prompt]
style = {{ spelling = "lists", show = "ordinals", examples = 0, prefill = "Let us see. model_id = [" }}
[sft]
examples = "plans.jsonl"
epochs = 12
learning_rate = {rate}
batch = 4
micro_batch = 4
save_every = 100
[grpo]
"""
WORKERS = """
[endpoints.local]
base_url = "{url}"
[workers.first]
endpoint = "local"
model = "first"
[workers.second]
endpoint = "local"
model = "second"
[retry]
attempts = 1
"""


def command(module: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", module, *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=QUIET, check=False)


def exported(folder: Path, rate: float) -> str:
    """Train a conductor, and export it; return the section that the export prints."""
    make_base(folder / "base")
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(rate=rate))
    recipe = load_recipe(path)
    environment = environment_of(recipe.environment, folder)
    rows = [
        {
            "messages": [
                {"role": each.role, "content": each.text}
                for each in messages_of(recipe, environment, episode)
            ],
            "completion": f"Let us see. {PLAN}",
            "source": "test",
            "reward": 1.0,
            "kind": episode.kind,
        }
        for episode in environment.episodes("train", 8, seed=1)
    ]
    (folder / "plans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("export", "--config", "recipe.toml", "--model", "run/sft/final", "--out", "conductor", "--gguf")
    for each in (("sft", "--config", "recipe.toml"), words):
        done = command("podium_train", *each, folder=folder)
        assert done.returncode == 0, done.stderr
    return done.stdout[done.stdout.index("[planner]") :]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("rate", "code", "planner"), [(5e-3, 0, "conductor"), (1e-9, 3, "rule")], ids=["trained", "untrained"]
)
def test_a_trained_conductor_plans(rate: float, code: int, planner: str, tmp_path: Path) -> None:
    """`podium run` with the printed section; without valid plans, it says so and falls back as configured."""
    section = exported(tmp_path, rate).replace("[limits]", 'fallback = "rule"\n[limits]')
    with (
        ChatServer(lambda call: says(call, call.body["model"])).in_thread() as workers,
        small_model(tmp_path / "conductor" / "conductor.gguf") as url,
    ):
        served = section.replace("http://localhost:8080/v1", url)
        (tmp_path / "podium.toml").write_text(served + WORKERS.format(url=workers.url))
        done = command("podium", "run", "--json", "--no-journal", "How much is it?", folder=tmp_path)
    assert done.returncode == code, done.stderr
    result = json.loads(done.stdout)
    assert result["planner"]["name"] == planner
    if planner == "conductor":
        assert result["answer"] == "first"
        assert [(each["worker"], each["status"]) for each in result["outcomes"]] == [("first", "ok")]
        facts = tmp_path / "conductor" / FACTS_FILE
        facts.write_text(facts.read_text().replace('"examples": 0', '"examples": 1'))
        with pytest.raises(ConfigError, match="trained with the prompt"):
            load_config(tmp_path / "podium.toml").conductor(journaled=False)
    else:
        assert result["status"] == "partial"
        assert "plan" in result["problem"]["message"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_llama_cpp_writes_the_same_texts(tmp_path: Path) -> None:
    """The greedy texts of a real model, whose base is a GGUF file itself, are those of transformers."""
    torch.set_num_threads(1)
    write_gguf_base(weights(), tmp_path / "base")
    write_gguf(tmp_path / "base", tmp_path / "again.gguf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    with small_model(tmp_path / "again.gguf") as url, httpx2.Client(timeout=120, trust_env=False) as client:
        for asked in ("What is the capital of France?", "Write a sentence with 23 + 42,\n  and x_1 = 3.5."):
            messages = [{"role": "user", "content": asked}]
            body = {"model": "it", "messages": messages, "temperature": 0, "max_tokens": 8}
            told = client.post(f"{url}/chat/completions", json=body).json()
            tokens = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            size = tokens["input_ids"].shape[1]
            found = model.generate(
                **tokens, max_new_tokens=8, do_sample=False, pad_token_id=tokenizer.pad_token_id
            )
            assert told["usage"]["prompt_tokens"] == size
            text = tokenizer.decode(found[0, size:], skip_special_tokens=True)
            assert told["choices"][0]["message"]["content"] == text


def test_another_family_is_refused(tmp_path: Path) -> None:
    """The message names the tool of llama.cpp that writes it."""
    write_small_base(tmp_path / "base")
    path = tmp_path / "base" / "tokenizer.json"
    path.write_text(path.read_text().replace('"use_regex": true', '"use_regex": false', 1))
    with pytest.raises(ConfigError, match=r"splits texts in another way.*convert_hf_to_gguf\.py"):
        write_gguf(tmp_path / "base", tmp_path / "it.gguf")
