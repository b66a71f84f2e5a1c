"""Writes the folder of a trained conductor, for vLLM, llama.cpp and other servers."""

import json
import shutil
from importlib import import_module
from pathlib import Path

from podium.errors import ConfigError
from podium_train.environments import Environment
from podium_train.export.facts import FACTS, FACTS_FILE, ConductorFacts, PoolFacts
from podium_train.guards import Best
from podium_train.prefill import prefill_of
from podium_train.recipes import Recipe, environment_of, fingerprint_of

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
_SAMPLE = 64


def export_conductor(recipe: Recipe, folder: Path, model: Path, out: Path) -> ConductorFacts:
    """Write the model, its tokenizer with the chat template, and `podium_conductor.json`.

    Small matrices of LoRA are merged into the weights.

    Args:
        recipe: the settings of the training.
        folder: the folder of the recipe.
        model: a folder that a trainer wrote.
        out: the folder to write, which must not exist.

    Raises:
        ConfigError: there is no model, the folder exists, the tokenizer has no chat template or one with
            another prefill, or the prompt is not the prompt of production.
    """
    if out.exists():
        raise ConfigError(f"{out} exists: name a new folder with --out")
    if not (model / "config.json").exists() and not (model / "adapter_config.json").exists():
        raise ConfigError(f"there is no model in {model}: train one, or name its folder with --model")
    _check_template(model, recipe.prompt.style.prefill)
    fingerprint = fingerprint_of(recipe.prompt)
    environment = environment_of(recipe.environment, folder)
    new = out.with_name(f"{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    if (model / "adapter_config.json").exists():
        import_module("podium_train.trl").merge_lora(model, new, dtype=recipe.model.dtype)
    _copy(model, new)
    best = _best(model)
    facts = ConductorFacts(
        fingerprint=fingerprint,
        style=recipe.prompt.style,
        base=recipe.model.base,
        environment=environment.name,
        data=environment.version,
        pool=_pool(environment),
        step=None if best is None else best.step,
        accuracy=None if best is None else best.accuracy,
        last_measures=_measures(folder / recipe.folder / "steps.jsonl", best),
    )
    (new / FACTS_FILE).write_bytes(FACTS.dump_json(facts, indent=2))
    new.rename(out)
    return facts


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
            f"the model in {model} was trained with the prefill {found!r:.60}, and the recipe has "
            f"{prefill!r:.60}: export with the recipe of the training"
        )


def _pool(environment: Environment) -> PoolFacts:
    episodes = environment.episodes("train", _SAMPLE, seed=0)
    pools = {episode.workers for episode in episodes}
    prose = [card for each in episodes for place, card in enumerate(each.cards) if place not in each.fills]
    return PoolFacts(
        sizes=tuple(sorted({len(pool) for pool in pools})),
        cards=tuple(card.description for card in episodes[0].cards),
        workers=pools.pop() if len(pools) == 1 else (),
        rates=any(card.measured for card in prose),
        prices=any(card.price is not None for card in prose),
    )


def _best(model: Path) -> Best | None:
    path = model / "best.json"
    return Best(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def _measures(log: Path, best: Best | None) -> dict[str, object]:
    if best is None or not log.exists():
        return {}
    lines = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("}"))
    return next((line for line in lines if line["step"] == best.step), {})
