"""Recipes: their tables, and what they name. Unknown keys are errors, and types are not converted."""

import re
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from podium.config import Section
from podium.config.load import read_table
from podium.config.section import RECORD
from podium.errors import ConfigError
from podium.planners.chat import round_feedback
from podium.types import Message
from podium_evals.recorded import read_recordings
from podium_train.environments import Environment, Episode, LivePool, RecordedAnswers, RecordedSettings, Split
from podium_train.guards import GuardSettings
from podium_train.prompts import PromptStyle, fingerprint, messages, second_messages
from podium_train.rewards import DISCOUNT, CostWeight, RewardLimits

Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class EnvironmentSection(Section):
    """`[environment]`: where questions, pools and outcomes come from."""

    type: Literal["recorded", "live", "python"]
    """`recorded` looks answers up; `live` calls the workers of a `podium.toml`; `python` is an environment of
    your own."""
    factory: str | None = None
    """A class or function that returns the environment, as `module:name`, for `python`. The module is
    installed, or beside the recipe."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Its arguments, for `python`."""
    recording: str | None = None
    """The file of recorded answers, for `recorded`."""
    config: str | None = None
    """The `podium.toml`, for `live`."""
    questions: str | None = None
    """The questions with their answers, for `live`."""
    grader: str | None = None
    """The grader of all questions, for `live`; by default each question names one."""
    python: str | None = None
    """The interpreter that runs answers to questions on code, within limits, for `live`; by default none."""
    cassette: str | None = None
    """Recorded calls in place of the workers, for `live`; a plan with another call has no outcome."""
    sizes: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None
    """Possible numbers of workers in a pool, for `live`. A few sizes make a conductor that adapts to its
    pool."""
    answers: Annotated[RecordedSettings, RECORD] = Field(default_factory=RecordedSettings)
    """How episodes are drawn, for `recorded`."""

    @model_validator(mode="after")
    def _has_its_keys(self) -> Self:
        needed = {"recorded": ("recording",), "live": ("config", "questions"), "python": ("factory",)}[
            self.type
        ]
        for key in needed:
            if getattr(self, key) is None:
                raise ValueError(f"an environment of type {self.type!r} needs {key!r}: add it")
        return self


class PromptSection(Section):
    """`[prompt]`: how the conductor is asked."""

    form: Literal["production", "environment"] = "production"
    """`production` is the prompt of `podium.planners.ChatPlanner`; `environment` is `Environment.message`."""
    style: Annotated[PromptStyle, RECORD] = Field(default_factory=lambda: PromptStyle(spelling="lists"))
    """The settings of the prompt of production."""


class LoraSection(Section):
    """`[model.lora]`: train small matrices beside the weights."""

    rank: Positive = 32
    alpha: Positive = 64
    dropout: Share = 0.0
    targets: str = "all-linear"


class ModelSection(Section):
    """`[model]`: the conductor's model."""

    base: str
    """Name on the Hugging Face Hub, or a folder; relative folders start at the folder of the recipe."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """The type of the weights. By default float32, in which small updates are not rounded away; the weights
    under LoRA, which do not change, are in bfloat16 on a GPU."""
    lora: LoraSection | None = None
    """Without it, all weights are trained."""
    attention: str | None = None
    """Implementation of attention of transformers, for example `flash_attention_2`; its own default."""


class SftSection(Section):
    """`[sft]`: supervised training on plans."""

    examples: str
    """JSON lines with `messages` and `completion`."""
    epochs: Rate = 1.0
    learning_rate: Rate = 1e-5
    batch: Positive = 32
    """Examples of an update."""
    micro_batch: Positive = 4
    """Examples of a forward pass, on each device."""
    max_tokens: Positive = 8192
    """Maximum length of an example."""
    save_every: Positive = 50
    """Updates between checkpoints."""
    seed: int = 42

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.batch % self.micro_batch:
            raise ValueError(f"batch {self.batch} is not a multiple of micro_batch {self.micro_batch}")
        return self


class VllmSection(Section):
    """`[grpo.vllm]`: texts are sampled by vLLM in the process of the trainer."""

    memory: Share = 0.5
    """Share of the GPU's memory."""
    tensor_parallel: Positive = 1
    sleep: bool = True
    """Whether vLLM frees its memory while the weights are trained."""
    max_length: Positive | None = None
    """Maximum tokens of a prompt and its text; default: what the model allows, which needs more memory."""


class GrpoSection(Section):
    """`[grpo]`: reinforcement learning on the outcome of plans. The defaults are those of the paper."""

    groups: Positive = 4
    """Questions of an update."""
    group_size: Annotated[int, Field(ge=2)] = 64
    """Texts for each question."""
    steps: Positive = 200
    """Updates."""
    learning_rate: Rate = 1e-6
    schedule: Literal["cosine", "constant", "linear"] = "cosine"
    warm_up: Share = 0.03
    """Share of the steps in which the learning rate rises."""
    beta: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the distance to the first model; above 0 that model is kept in memory."""
    epsilon: Rate = 0.2
    """Range of the clipped ratio."""
    loss: Literal["bnpo", "dapo", "dr_grpo", "grpo"] = "bnpo"
    """Type of the loss, by its name in TRL."""
    entropy: Annotated[float, Field(ge=0)] = 0.0
    """Weight of a bonus for entropy."""
    temperature: Rate = 1.0
    max_tokens: Positive = 1024
    """Maximum length of a text."""
    micro_batch: Positive = 8
    """Texts of a forward pass, on each device."""
    save_every: Positive = 20
    """Steps between checkpoints."""
    vllm: VllmSection | None = None
    """Without it, transformers samples the texts."""
    seed: int = 42

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if (texts := self.groups * self.group_size) % self.micro_batch:
            told = f"groups × group_size is {texts}, which is not a multiple of micro_batch"
            raise ValueError(f"{told}, {self.micro_batch}")
        return self


class RecursionSection(Section):
    """`[recursion]`: half of the texts of a group continue the others, whose answer they are shown."""

    discount: Share = DISCOUNT
    """Weight of the second round in the reward of the first; the paper's value by default."""


class RewardSection(Section):
    """`[reward]`: how plans are carried out and rewarded."""

    database: str = "rewards.db"
    """The database of outcomes and spending, in the folder of the run."""
    limits: Annotated[RewardLimits, RECORD] = Field(default_factory=RewardLimits)
    cost: Annotated[CostWeight, RECORD] = Field(default_factory=CostWeight)
    """The weight of the cost among right plans of a group."""


class HeldOutSection(Section):
    """`[held_out]`: measurement during training."""

    splits: tuple[Split, ...] = ("validation",)
    """Splits to measure; the first chooses the best checkpoint."""
    episodes: Positive = 64
    """Episodes of each split."""
    every: Positive = 20
    """Steps between measurements; a multiple of `save_every`."""
    seed: int = 1


class Recipe(Section):
    """All settings of a training."""

    folder: str = "run"
    """Folder of logs and checkpoints."""
    environment: EnvironmentSection
    prompt: PromptSection = Field(default_factory=PromptSection)
    model: ModelSection
    sft: SftSection | None = None
    grpo: GrpoSection | None = None
    recursion: RecursionSection | None = None
    reward: RewardSection = Field(default_factory=RewardSection)
    guards: Annotated[GuardSettings, RECORD] = Field(default_factory=GuardSettings)
    held_out: HeldOutSection = Field(default_factory=HeldOutSection)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.sft is None and self.grpo is None:
            raise ValueError("there is neither [sft] nor [grpo]: add at least one")
        if self.grpo is not None and self.held_out.every % self.grpo.save_every:
            told = f"'every' in [held_out] is {self.held_out.every}, which is not a multiple of 'save_every'"
            raise ValueError(f"{told} in [grpo], {self.grpo.save_every}")
        if self.recursion is not None:
            self._fits_recursion()
        return self

    def _fits_recursion(self) -> None:
        if self.grpo is None:
            raise ValueError("[recursion] needs [grpo]: add it")
        if self.prompt.style.rounds != 2:
            raise ValueError("[recursion] needs two rounds: write rounds = 2 in 'style' of [prompt]")
        if self.grpo.group_size % 2:
            raise ValueError("[recursion] continues half of a group: write an even 'group_size' in [grpo]")


def shipped_recipes() -> dict[str, str]:
    """Return the text of each recipe of this package, by name."""
    folder = files("podium_train") / "shipped"
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda each: each.name)
        if entry.name.endswith(".toml")
    }


def shipped_launchers() -> dict[str, str]:
    """Return the text of each file for `accelerate launch --config_file`, by its name."""
    folder = files("podium_train") / "shipped"
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    }


def load_recipe(path: Path) -> Recipe:
    """Read and check a recipe."""
    known = ", ".join(shipped_recipes())
    return read_table(path, Recipe, f"name another; `podium-train recipe NAME` writes one of {known}")


_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_MODEL_FILES = ("config.json", "adapter_config.json")


def check_model(recipe: Recipe, folder: Path) -> None:
    """Check what a training would need first: its base, and a type of weights that this machine can train.

    The Hub is not asked.
    """
    if not (folder / recipe.folder / "sft" / "final").is_dir():  # from which reinforcement starts
        base_of(recipe.model, folder)
    check_dtype(recipe.model)


def base_of(model: ModelSection, folder: Path) -> str:
    """Return the base as a path if it is a folder beside the recipe, or else its name on the Hub."""
    named = Path(model.base)
    path = folder / (named.expanduser() if model.base.startswith("~/") else named)
    if path.is_dir():
        if not any((path / name).exists() for name in _MODEL_FILES):
            raise ConfigError(f"'base' in [model] is the folder {path}, which has no config.json of a model")
        return str(path.resolve())
    if path.exists():
        raise ConfigError(f"'base' in [model] is the file {path}: name the folder of a model")
    if not _HUB_NAME.fullmatch(model.base):
        raise ConfigError(
            f"'base' in [model] is {model.base!r}: there is no folder {path}, and it is not a name on the "
            "Hugging Face Hub, such as Qwen/Qwen2.5-3B-Instruct"
        )
    return model.base


def check_dtype(model: ModelSection) -> None:
    """Check the type of the weights."""
    if model.dtype == "bfloat16" and not import_module("torch").cuda.is_available():
        raise ConfigError(
            "'dtype' in [model] is 'bfloat16', and there is no GPU: write \"float32\", or leave it out"
        )


def environment_of(section: EnvironmentSection, folder: Path) -> Environment:
    """Return the environment."""
    if section.type == "python":
        return _own(section, folder)
    if section.type == "recorded":
        assert section.recording is not None
        return RecordedAnswers(read_recordings(folder / section.recording), section.answers)
    assert section.config is not None
    assert section.questions is not None
    return LivePool(
        folder / section.config,
        folder / section.questions,
        grader=section.grader,
        python=section.python,
        cassette=None if section.cassette is None else folder / section.cassette,
        sizes=section.sizes,
    )


def _own(section: EnvironmentSection, folder: Path) -> Environment:
    """Return an environment of the user."""
    assert section.factory is not None
    module, _, name = section.factory.partition(":")
    if (beside := str(folder.resolve())) not in sys.path:
        sys.path.append(beside)
    told = f"'factory' in [environment] is {section.factory!r}"
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{told}, which cannot be imported: {error}; write module:name") from error
    try:
        made = make(**section.options)
    except TypeError as error:
        raise ConfigError(f"'options' in [environment] do not fit {section.factory}: {error}") from error
    if not isinstance(made, Environment):
        raise ConfigError(f"{told}, which returns no podium_train.Environment")
    return made


def messages_of(
    recipe: Recipe, environment: Environment, episode: Episode, earlier: tuple[str, str] | None = None
) -> tuple[Message, ...]:
    """Return the messages that the conductor is sent for an episode."""
    style = recipe.prompt.style
    if recipe.prompt.form == "environment":
        asked = Message("user", environment.message(episode))
        if earlier is None:
            return (asked,)
        text, answer = earlier
        feedback = round_feedback(answer, spelling="lists")
        return (asked, Message("assistant", text), Message("user", feedback))
    if earlier is None:
        return messages(episode, style)
    return second_messages(episode, style, text=earlier[0], answer=earlier[1])


def fingerprint_of(section: PromptSection) -> str:
    """Return the fingerprint of the prompt, with which the conductor must be served."""
    if section.form == "environment":
        raise ConfigError(
            "a conductor with a prompt of its environment cannot be served: it knows its own world only"
        )
    return fingerprint(section.style)


def check_environment(recipe: Recipe, folder: Path) -> None:
    """Check that the environment has the held-out splits, and the prices for `[reward.cost]`.

    A training would end at the first split that is missing. Without prices, costs would have no effect.
    """
    environment = environment_of(recipe.environment, folder)
    for split in recipe.held_out.splits:
        if split not in environment.splits:
            known = ", ".join(environment.splits)
            raise ConfigError(f"'splits' in [held_out] names {split}: {environment.name} has {known}")
    if recipe.reward.cost.weight and environment.unpriced:
        raise ConfigError(
            "[reward.cost] compares the costs of plans, and the price of "
            f"{', '.join(environment.unpriced)} is unknown: set `price` in [workers.NAME] of podium.toml "
            "(for recorded answers, then repeat `podium evals record ask`, which records the prices without "
            "new calls), or leave out [reward.cost]"
        )
