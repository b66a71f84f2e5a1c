"""What a run remembers of its start, and which changes it refuses."""

from pathlib import Path

import pytest
from small_recording import small_recording

from podium.errors import ConfigError
from podium_evals.recorded import write_recordings
from podium_train.recipe import load_recipe
from podium_train.runs import (
    RECORD,
    TrainingRecord,
    begin,
    begin_after_sft,
    mark_model,
    read_record,
    record_of,
    write_record,
)

RECIPE = """
folder = "run"
environment.type = "recorded"
environment.recording = "recording.jsonl"
environment.answers = { sizes = [2, 3], held_workers = 1 }
held_out = { every = 20 }
[model]
base = "base"
[sft]
examples = "plans.jsonl"
[grpo]
steps = 100
"""
LORA = RECIPE.replace("[sft]", "[model.lora]\n[sft]")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "model.safetensors").write_text("weights")
    (tmp_path / "plans.jsonl").write_text("{}\n")
    write_recordings(small_recording(), tmp_path / "recording.jsonl")
    return tmp_path


def started(folder: Path, text: str = RECIPE, part: str = "grpo") -> TrainingRecord:
    (folder / "recipe.toml").write_text(text)
    recipe = load_recipe(folder / "recipe.toml")
    return record_of("sft" if part == "sft" else "grpo", recipe, folder)


def with_checkpoint(folder: Path, record: TrainingRecord, step: int = 40) -> Path:
    """Begin a run, and write a checkpoint; return the folder of the run."""
    run = folder / "run"
    assert begin(run, record) == []
    checkpoint = run / f"checkpoint-{step}"
    checkpoint.mkdir()
    mark_model(checkpoint, run)
    (checkpoint / "guards.json").write_text("{}")
    return run


def test_a_run_and_its_models_have_the_record(folder: Path) -> None:
    """As written at the start, with the data, the pools and the base."""
    record = started(folder)
    run = with_checkpoint(folder, record)
    assert read_record(run) == read_record(run / "checkpoint-40") == record
    assert (record.environment, record.start, record.pool.sizes) == ("recorded", "base", (3, 4))
    assert read_record(folder) is None
    (run / RECORD).write_text('{"part": "grpo"}')
    with pytest.raises(ConfigError, match=rf"{RECORD} is not valid: recipe"):
        read_record(run)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("[grpo]", "[grpo]\nlearning_rate = 1e-5"), "'learning_rate' in [grpo]: 1e-06, now 1e-05"),
        (("[grpo]", "[model.lora]\n[grpo]"), "'lora' in [model]: not set, now a table"),
        (("every = 20", "episodes = 8"), "'episodes' in [held_out]: 64, now 8"),
        (("sizes = [2, 3]", "sizes = [2]"), "'sizes' in [environment.answers]: [2, 3], now [2]"),
        (("steps = 100", "steps = 20"), "'steps' in [grpo] is 20, and the run has made 40"),
    ],
)
def test_a_run_refuses_changes_that_would_alter_it(change: tuple[str, str], told: str, folder: Path) -> None:
    run = with_checkpoint(folder, first := started(folder))
    with pytest.raises(ConfigError, match="name another 'folder'") as error:
        begin(run, started(folder, RECIPE.replace(*change)))
    assert [line.strip() for line in str(error.value).splitlines()[1:-1]] == [told]
    assert read_record(run) == first


def test_a_run_allows_changes_that_cannot_alter_it(folder: Path) -> None:
    """Another place of the data, another machine, more steps; other learning rates are told."""
    run = with_checkpoint(folder, started(folder))
    (folder / "recording.jsonl").rename(folder / "moved.jsonl")
    text = RECIPE.replace("recording.jsonl", "moved.jsonl")
    text = text.replace("steps = 100", "steps = 200\nmicro_batch = 16\nsave_every = 10")
    text = text.replace('base = "base"', 'base = "base"\nattention = "eager"')
    (told,) = begin(run, started(folder, text + "[guards]\npatience = 3\n"))
    assert told.startswith("Changed since the last start: 'steps' in [grpo]: 100, now 200.")
    assert read_record(run).recipe.grpo.steps == 200


def test_a_run_refuses_other_data_and_weights_under_the_same_name(folder: Path) -> None:
    run = with_checkpoint(folder, started(folder, part="sft"))
    (folder / "recording.jsonl").unlink()
    write_recordings(small_recording(seed=2), folder / "recording.jsonl")
    (folder / "base" / "model.safetensors").write_text("other")
    (folder / "plans.jsonl").write_text("{}\n{}\n")
    with pytest.raises(ConfigError) as error:
        begin(run, started(folder, part="sft"))
    lines = [line.partition(":")[0].strip() for line in str(error.value).splitlines()[1:-1]]
    data, model = "the data of the environment 'recorded'", "the model from which it starts"
    assert lines == [data, "the examples of [sft]", model]


def test_a_run_without_a_model_starts_again(folder: Path) -> None:
    """With any settings; a run with models and no record is refused."""
    run = folder / "run"
    begin(run, started(folder))
    begin(run, other := started(folder, LORA))
    assert read_record(run) == other
    (run / RECORD).unlink()
    (run / "best").mkdir()
    with pytest.raises(ConfigError, match=f"has models and no {RECORD}"):
        begin(run, other)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (RECIPE.replace('"base"', '"other"'), "'base' in [model]"),
        (RECIPE + "[prompt]\nstyle = { examples = 2 }\n", "'examples' in [prompt.style]: not set, now 2"),
    ],
)
def test_grpo_continues_the_same_base_with_the_same_prompt(text: str, told: str, folder: Path) -> None:
    """Else the model of supervised training would be taken for another one."""
    run, first = folder / "run", started(folder, part="sft")
    write_record(run / "sft" / "final", first)
    begin_after_sft(run, started(folder, LORA).recipe)
    with pytest.raises(ConfigError) as error:
        begin_after_sft(run, started(folder, text).recipe)
    assert told in str(error.value)
