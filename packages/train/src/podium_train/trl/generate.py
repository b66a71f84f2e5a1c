"""Samples texts of a model outside of training, for measurements."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object

from podium.types import Message

_STAND_IN = (Message("user", "Wait."),)
"""The prompt of a process that has none left."""


class Generator:
    """Samples texts in batches, without a change to the random numbers of the training.

    Args:
        model: a causal language model of transformers.
        tokenizer: its tokenizer, with a chat template.
        max_tokens: maximum length of a text.
        temperature: the temperature of sampled texts.
        batch: prompts of a batch.
    """

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
