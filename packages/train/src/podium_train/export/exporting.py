"""Writes the folder of a trained conductor, for vLLM, llama.cpp and other servers."""

import json
import shutil
from importlib import import_module
from pathlib import Path

from podium.errors import ConfigError
from podium_train.export.planner import FACTS, FACTS_FILE, ConductorFacts
from podium_train.guards import STEPS, Best
from podium_train.prompts import prefill_of
from podium_train.recipes import Recipe, fingerprint_of
from podium_train.runs import RECORD, TrainingRecord, check_recipe, read_record, share_files, weights_of

GGUF_FILE = "conductor.gguf"
_KEPT = (
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "model.safetensors.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "vocab*",
    "merges.txt",
    "added_tokens.json",
    "chat_template*",
)


def export_conductor(
    recipe: Recipe, folder: Path, model: Path, out: Path, *, gguf: bool = False
) -> ConductorFacts:
    """Write the model, its tokenizer with the chat template, and `podium_conductor.json`.

    What the file says of the training is read from the record of the model. Small matrices of LoRA are merged
    into the weights.

    Args:
        recipe: the settings of the training.
        folder: the folder of the recipe.
        model: a folder that a trainer wrote.
        out: the folder to write, which must not exist.
        gguf: whether to also write `conductor.gguf`, for llama.cpp.

    Raises:
        ConfigError: there is no model, or it was not trained, the folder exists, the recipe has another
            prompt, other data or another base than the training, the tokenizer has no chat template or one
            with another prefill, or the prompt is not the prompt of production.
    """
    if out.exists():
        raise ConfigError(f"{out} exists: name a new folder with --out")
    is_lora = (model / "adapter_config.json").exists()
    if not (model / "config.json").exists() and not is_lora:
        raise ConfigError(f"there is no model in {model}: train one, or name its folder with --model")
    record = read_record(model)
    if record is None:
        raise ConfigError(
            f"the model in {model} was not trained by podium-train, because it has no {RECORD}: name 'best', "
            f"'final' or a checkpoint of {folder / recipe.folder} with --model"
        )
    check_recipe(record, recipe, model)
    if record.fingerprint is None:
        fingerprint_of(record.recipe.prompt)  # says why it cannot be served
    _check_template(model, record.recipe.prompt.style.prefill)
    if is_lora:
        _check_start(model, record)
    new = out.with_name(f"{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    if is_lora:
        trainers = import_module("podium_train.trl")
        trainers.merge_lora(model, new, dtype=trainers.dtype_of(record.recipe.model))
    _copy(model, new)
    if gguf:
        import_module("podium_train.trl").write_gguf(new, new / GGUF_FILE)
    facts = _facts(record, model)
    (new / FACTS_FILE).write_bytes(FACTS.dump_json(facts, indent=2))
    share_files(new, like=FACTS_FILE)
    new.rename(out)
    return facts


def _facts(record: TrainingRecord, model: Path) -> ConductorFacts:
    best = _best(model)
    assert record.fingerprint is not None
    return ConductorFacts(
        fingerprint=record.fingerprint,
        style=record.recipe.prompt.style,
        base=record.recipe.model.base,
        environment=record.environment,
        data=record.data,
        pool=record.pool,
        step=None if best is None else best.step,
        accuracy=None if best is None else best.accuracy,
        last_measures=_measures(model.parent / STEPS, best),
    )


def _copy(model: Path, out: Path) -> None:
    """Copy the files of the model and the tokenizer, without the state of the trainer."""
    for pattern in _KEPT:
        for path in model.glob(pattern):
            if not (out / path.name).exists() and not path.name.startswith("adapter_"):
                shutil.copy2(path, out / path.name)


def _check_template(model: Path, prefill: str) -> None:
    """Check that the tokenizer has a chat template with this prefill, because servers write it.

    Raises:
        ConfigError: it has none, or another prefill.
    """
    own, settings = model / "chat_template.jinja", model / "tokenizer_config.json"
    template = None
    if own.exists():
        template = own.read_text(encoding="utf-8")
    elif settings.exists():
        template = json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    if not isinstance(template, str):
        raise ConfigError(f"the tokenizer in {model} has no chat template: take a chat model as base")
    if (found := prefill_of(template)) != prefill:
        raise ConfigError(
            f"the chat template in {model} has the prefill {found!r:.60}, and the training had "
            f"{prefill!r:.60}: restore the template of the training"
        )


def _check_start(model: Path, record: TrainingRecord) -> None:
    """Check that the small matrices are merged into the weights from which their training started.

    Raises:
        ConfigError: these weights are not there, or have changed.
    """
    settings = json.loads((model / "adapter_config.json").read_text(encoding="utf-8"))
    start = Path(settings["base_model_name_or_path"])
    if record.weights is not None and weights_of(start) != record.weights:
        raise ConfigError(
            f"the model in {model} changes the weights in {start}, and these are not the weights from which "
            "its training started: restore them"
        )


def _best(model: Path) -> Best | None:
    path = model / "best.json"
    return Best(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _measures(log: Path, best: Best | None) -> dict[str, object]:
    if best is None or not log.exists():
        return {}
    lines = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}"))
    return next((line for line in lines if line["step"] == best.step), {})
