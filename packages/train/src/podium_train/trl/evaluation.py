"""Samples texts of a model, and measures it on held-out splits."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM

from podium.errors import ConfigError
from podium.types import Message
from podium_train.environments import Environment, Episode
from podium_train.errors import NothingMeasured
from podium_train.guards import HeldOut, SecondRounds, accuracy, held_out_told, second_rounds
from podium_train.recipe import Recipe, check_dtype, environment_of, messages_of
from podium_train.rewards import Score, ScoreRequest
from podium_train.run_files import WrittenText, written_text
from podium_train.runs import check_prompt, read_record
from podium_train.trl.models import dtype_of, quiet, tokenizer_of
from podium_train.trl.rewards import PlanReward

_STAND_IN = (Message("user", "Wait."),)
"""The prompt of a process that has none left."""


class Generator:
    """Samples texts in batches, without a change to the random numbers of the training."""

    def __init__(
        self, model: Any, tokenizer: Any, *, max_tokens: int, temperature: float = 1.0, batch: int = 32
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._batch = batch

    def texts(self, prompts: Sequence[Sequence[Message]], *, is_greedy: bool, seed: int) -> list[str]:
        """Return one text for each prompt; the same for the same seed.

        If a training has several processes, all of them must call this, also for no prompts: with sharded
        weights, each pass through the model needs all processes.
        """
        batches = [prompts[start : start + self._batch] for start in range(0, len(prompts), self._batch)]
        passes = max(gather_object([len(batches)]))
        texts = []
        with self._for_generation(seed):
            for batch in batches:
                texts += self._batch_of(batch, is_greedy=is_greedy)
            for _ in range(passes - len(batches)):
                self._batch_of([_STAND_IN], is_greedy=is_greedy)
        return texts

    def _batch_of(self, prompts: Sequence[Sequence[Message]], *, is_greedy: bool) -> list[str]:
        written = [
            self._tokenizer.apply_chat_template(
                [{"role": message.role, "content": message.text} for message in prompt],
                tokenize=False,
                add_generation_prompt=True,
            )
            for prompt in prompts
        ]
        tokens = self._tokenizer(
            written, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False
        ).to(self._model.device)
        chosen: dict[str, Any] = {"do_sample": False}
        if not is_greedy:
            chosen = {"do_sample": True, "temperature": self._temperature, "top_p": 1.0, "top_k": 0}
        found = self._model.generate(
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
            max_new_tokens=self._max_tokens,
            pad_token_id=self._tokenizer.pad_token_id,
            synced_gpus=PartialState().num_processes > 1,
            **chosen,
        )
        size = tokens["input_ids"].shape[1]
        return list(self._tokenizer.batch_decode(found[:, size:], skip_special_tokens=True))

    @contextmanager
    def _for_generation(self, seed: int) -> Iterator[None]:
        was_training = self._model.training
        self._model.eval()
        try:
            with torch.random.fork_rng(), torch.inference_mode():
                torch.manual_seed(seed)
                yield
        finally:
            self._model.train(was_training)


def measure_held_out(
    recipe: Recipe,
    folder: Path,
    generator: Generator,
    score: Callable[[Sequence[ScoreRequest]], list[Score]],
    heard: Callable[[str, WrittenText], object] = lambda _split, _text: None,
) -> Mapping[str, HeldOut]:
    """Return the accuracy on the splits of `[held_out]`. Each process measures a part of the episodes."""
    environment, wanted, state = environment_of(recipe.environment, folder), recipe.held_out, PartialState()
    found: dict[str, HeldOut] = {}
    for split in wanted.splits:
        drawn = environment.episodes(split, wanted.episodes, seed=wanted.seed)
        episodes = drawn[state.process_index :: state.num_processes]
        how = _Measuring(recipe, environment, generator, score, episodes, partial(heard, split))
        sampled, sampled_second = how.measure(is_greedy=False)
        greedy, greedy_second = how.measure(is_greedy=True)
        found[split] = HeldOut(
            sampled=accuracy(sampled),
            greedy=accuracy(greedy),
            unknown=dict(Counter(score.why_unknown for score in sampled + greedy if score.value is None)),
            sampled_second=sampled_second,
            greedy_second=greedy_second,
        )
    return found


@dataclass(frozen=True, slots=True)
class _Measuring:
    """Measures a model on some episodes."""

    recipe: Recipe
    environment: Environment
    generator: Generator
    score: Callable[[Sequence[ScoreRequest]], list[Score]]
    episodes: Sequence[Episode]
    heard: Callable[[WrittenText], object]

    def measure(self, *, is_greedy: bool) -> tuple[list[Score], SecondRounds | None]:
        """Return the scores of first rounds, and what second rounds change if the prompt has two."""
        ask, seed = partial(messages_of, self.recipe, self.environment), self.recipe.held_out.seed
        prompts = [ask(episode) for episode in self.episodes]
        texts = self._texts(prompts, is_greedy=is_greedy, seed=seed)
        firsts = [
            ScoreRequest(episode=episode, text=text)
            for episode, text in zip(self.episodes, texts, strict=True)
        ]
        scores = self._scores(firsts)
        if self.recipe.prompt.style.rounds == 1:
            return gather_object(scores), None
        able = [at for at, score in enumerate(scores) if score.answer]
        prompts = [ask(self.episodes[at], (texts[at], scores[at].answer)) for at in able]
        seconds = self._texts(prompts, is_greedy=is_greedy, seed=seed + 1)
        found = self._scores(
            [
                replace(firsts[at], text=text, earlier=texts[at])
                for at, text in zip(able, seconds, strict=True)
            ]
        )
        found, scores = gather_object(found), gather_object(scores)
        others = [score for score in scores if not score.answer]
        return scores, second_rounds(found, others)

    def _scores(self, requests: Sequence[ScoreRequest]) -> list[Score]:
        scores = self.score(requests)
        for each, score in zip(requests, scores, strict=True):
            self.heard(written_text(each.episode, each.text, score, earlier=each.earlier))
        return scores

    def _texts(self, prompts: Sequence[Sequence[Message]], *, is_greedy: bool, seed: int) -> list[str]:
        prefill = self.recipe.prompt.style.prefill
        return [prefill + text for text in self.generator.texts(prompts, is_greedy=is_greedy, seed=seed)]


@quiet()
def evaluate(
    recipe: Recipe,
    folder: Path,
    model: Path,
    heard: Callable[[str, WrittenText], object] = lambda _split, _text: None,
) -> Mapping[str, HeldOut]:
    """Return the accuracy of a model on the splits of `[held_out]`.

    Args:
        recipe: the settings, with `[grpo]`.
        folder: the folder of the recipe.
        model: a folder that a trainer wrote.
        heard: is given each text, after its split; sampled texts come first.

    Raises:
        ConfigError: the folder has no model, or one that was trained with another prompt, or there is no GPU
            for the type of the weights.
        NothingMeasured: no outcome is known.
    """
    grpo = recipe.grpo
    assert grpo is not None
    check_dtype(recipe.model)
    if not model.is_dir():
        raise ConfigError(f"there is no model in {model}: train one, or name its folder with --model")
    if (record := read_record(model)) is not None:
        check_prompt(record, recipe, model)
    kind = AutoPeftModelForCausalLM if (model / "adapter_config.json").exists() else AutoModelForCausalLM
    generator = Generator(
        kind.from_pretrained(model, dtype=dtype_of(recipe.model)),
        tokenizer_of(str(model), recipe.prompt.style.prefill),
        max_tokens=grpo.max_tokens,
        temperature=grpo.temperature,
    )
    scorer = PlanReward(recipe, folder).scorer
    found = measure_held_out(
        recipe, folder, generator, lambda requests: anyio.run(scorer.score, requests), heard
    )
    if all(each.sampled is None and each.greedy is None for each in found.values()):
        told = "; ".join(f"{split}: {held_out_told(each)}" for split, each in found.items())
        raise NothingMeasured(f"no plan has a known outcome: {told}")
    return found
