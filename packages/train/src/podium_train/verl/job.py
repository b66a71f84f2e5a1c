"""Writes what verl needs for a recipe: data, settings, and the script that submits the job to Ray.

The settings are those of verl 0.9.1, whose checks accept them (`make test-verl`).
"""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from podium.errors import ConfigError
from podium_train.environments import Episode, Split
from podium_train.recipes import Recipe, environment_of, messages_of
from podium_train.rewards import episode_json
from podium_train.runs import begin, record_of
from podium_train.verl import reward_function

_AGGREGATION = {
    "bnpo": "token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "grpo": "seq-mean-token-mean",
}
_PLAIN = re.compile(r"[A-Za-z/_][\w/.:-]*", re.ASCII)
MAX_PROMPT = 8192
"""Maximum tokens of a prompt."""


def write_job(recipe: Recipe, folder: Path, out: Path, *, nodes: int, gpus: int) -> None:
    """Write `train.jsonl`, `validation.jsonl`, the command `train.sh`, and `job.sh`, which submits it.

    `training.json` is the record of the job. Copy it into the folder of a trained model to export the model.

    Args:
        recipe: the settings, with `[grpo]` and `[reward] url`.
        folder: the folder of the recipe.
        out: the folder to write, which all machines must see.
        nodes: number of machines.
        gpus: GPUs of each machine.

    Raises:
        ConfigError: the recipe has no reward server, or has what verl lacks, its batches do not fit the GPUs,
            or the folder has checkpoints of a job with other settings.
    """
    grpo = recipe.grpo
    assert grpo is not None
    if recipe.reward.url is None:
        raise ConfigError(
            "verl needs a reward server: write 'url' in [reward], and run podium-train serve-rewards"
        )
    if recipe.recursion is not None:
        raise ConfigError("[recursion] is only for TRL: run podium-train grpo, or leave the table out")
    if recipe.prompt.style.prefill:
        raise ConfigError("a prefill is only for TRL: run podium-train grpo, or leave it out of 'style'")
    if grpo.schedule == "linear":
        raise ConfigError('verl has no linear schedule: write schedule = "cosine" or "constant" in [grpo]')
    if recipe.model.lora is not None and recipe.model.lora.dropout:
        raise ConfigError("verl has no dropout of LoRA: leave 'dropout' out of [model.lora]")
    settings = overrides(recipe, out.resolve(), nodes=nodes, gpus=gpus)
    environment = environment_of(recipe.environment, folder)
    begin(out, record_of("grpo", recipe, folder))
    counts: dict[Split, tuple[int, int]] = {
        "train": (grpo.groups * grpo.steps, grpo.seed),
        "validation": (recipe.held_out.episodes, recipe.held_out.seed),
    }
    for split, (count, seed) in counts.items():
        rows = (
            _row(recipe, episode, environment.name, environment.version, split)
            for episode in environment.episodes(split, count, seed=seed)
        )
        (out / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (out / "train.sh").write_text(_command(settings), encoding="utf-8")
    (out / "job.sh").write_text(_submission(recipe, out.resolve() / "train.sh"), encoding="utf-8")


def overrides(recipe: Recipe, out: Path, *, nodes: int, gpus: int) -> dict[str, object]:
    """Return verl's settings for a recipe, by their dotted names.

    Raises:
        ConfigError: the batches do not fit the GPUs.
    """
    grpo = recipe.grpo
    assert grpo is not None
    if (grpo.groups * grpo.group_size) % (nodes * gpus):
        texts = f"groups × group_size is {grpo.groups * grpo.group_size}"
        raise ConfigError(f"{texts}, which is not a multiple of the {nodes * gpus} GPUs")
    lora = recipe.model.lora
    vllm = grpo.vllm
    return {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": True,
        "algorithm.use_kl_in_reward": False,
        "data.train_files": str(out / "train.jsonl"),
        "data.val_files": str(out / "validation.jsonl"),
        "data.train_batch_size": grpo.groups,
        "data.max_prompt_length": MAX_PROMPT,
        "data.max_response_length": grpo.max_tokens,
        "data.shuffle": False,
        "actor_rollout_ref.model.path": recipe.model.base,
        "actor_rollout_ref.model.lora_rank": 0 if lora is None else lora.rank,
        "actor_rollout_ref.model.lora_alpha": 16 if lora is None else lora.alpha,
        "actor_rollout_ref.model.target_modules": "all-linear" if lora is None else lora.targets,
        "actor_rollout_ref.actor.optim.lr": grpo.learning_rate,
        "actor_rollout_ref.actor.optim.lr_scheduler_type": grpo.schedule,
        "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio": grpo.warm_up,
        "actor_rollout_ref.actor.optim.weight_decay": 0.0,
        "actor_rollout_ref.actor.ppo_mini_batch_size": grpo.groups,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": grpo.micro_batch,
        "actor_rollout_ref.actor.use_kl_loss": grpo.beta > 0,
        "actor_rollout_ref.actor.kl_loss_coef": grpo.beta,
        "actor_rollout_ref.actor.entropy_coeff": grpo.entropy,
        "actor_rollout_ref.actor.clip_ratio_low": grpo.epsilon,  # verl reads `clip_ratio` without these only
        "actor_rollout_ref.actor.clip_ratio_high": grpo.epsilon,
        "actor_rollout_ref.actor.loss_agg_mode": _AGGREGATION[grpo.loss],
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": grpo.group_size,
        "actor_rollout_ref.rollout.temperature": grpo.temperature,
        "actor_rollout_ref.rollout.gpu_memory_utilization": 0.5 if vllm is None else vllm.memory,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1 if vllm is None else vllm.tensor_parallel,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": grpo.micro_batch,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": grpo.micro_batch,
        "reward.custom_reward_function.path": str(Path(reward_function.__file__)),
        "reward.custom_reward_function.name": "compute_score",
        "trainer.total_training_steps": grpo.steps,
        "trainer.save_freq": grpo.save_every,
        "trainer.test_freq": recipe.held_out.every,
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": gpus,
        "trainer.default_local_dir": str(out / "checkpoints"),
        "trainer.resume_mode": "auto",
        "trainer.logger": ["console", "tensorboard"],
    }


def _row(recipe: Recipe, episode: Episode, name: str, version: str, split: Split) -> dict[str, object]:
    messages = messages_of(recipe.prompt, episode)
    return {
        "data_source": f"podium/{name}/{split}",
        "prompt": [{"role": message.role, "content": message.text} for message in messages],
        "ability": episode.kind,
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {"episode": episode_json(episode), "environment": name, "version": version},
    }


def _submission(recipe: Recipe, command: Path) -> str:
    """Return the script that submits the job, whose command is in a file, because Ray changes its quotes."""
    environment = {"env_vars": {"PODIUM_REWARD_URL": recipe.reward.url}}
    if recipe.reward.token_env is not None:
        environment["env_vars"]["PODIUM_REWARD_TOKEN_ENV"] = recipe.reward.token_env
    words = ["ray", "job", "submit", "--runtime-env-json", json.dumps(environment), "--", "sh", str(command)]
    first = "# First: `ray start --head` on one machine, and `ray start --address=…` on the others."
    return f"#!/bin/sh\n{first}\nset -e\n{shlex.join(words)}\n"


def _command(settings: Mapping[str, object]) -> str:
    words = [shlex.quote(f"{key}={_in_hydra(value)}") for key, value in settings.items()]
    return "#!/bin/sh\n" + " \\\n    ".join(["exec python -m verl.trainer.main_ppo", *words]) + "\n"


def _in_hydra(value: object) -> str:
    """Return a value in the language of Hydra's command line, where some characters have a meaning."""
    if isinstance(value, list):
        return f"[{','.join(map(_in_hydra, value))}]"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{quoted}'"
    return str(value)
