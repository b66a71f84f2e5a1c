"""The tokenizer: a byte BPE, trained on prompts and plans of a world."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from podium_train.environments.specialists import Specialists
from podium_train.tiny.prompt import ASSISTANT, END, USER, tiny_message
from podium_train.tiny.warm_start import warm_text

SIZE = 512
PAD_ID, USER_ID, ASSISTANT_ID, END_ID = range(4)
PAD = "<|pad|>"
PLAN_PIECES = (
    r"\nmodel_id = \[",
    r'\]\nsubtasks = \["',
    r'", "',
    r'"\]\naccess_list = \[\[',
    r"\], \[",
    r"\]\]",
    r",? ?[0-9]",  # one token for each number, alone, in a sentence and in a list
)
"""Parts of plan text and numbers of workers, which can be one token in all worlds."""
_PIECES = (*PLAN_PIECES, r"[\n ]?[A-Za-z]+:?")
"""What can be one token: parts of plan text, numbers of workers, and words."""


def train_tokenizer(texts: int = 2000, seed: int = 0) -> Tokenizer:
    """Train the tokenizer of the specialists, on texts of their training split."""
    random = Random(seed)
    episodes = Specialists().episodes("train", texts, seed=seed)
    return tokenizer_of(
        [text for episode in episodes for text in (tiny_message(episode), warm_text(episode, random))],
        pieces=_PIECES,
        size=SIZE,
    )


def tokenizer_of(corpus: Iterable[str], *, pieces: Sequence[str], size: int) -> Tokenizer:
    """Train a tokenizer.

    Args:
        corpus: the texts.
        pieces: patterns of what can be one token.
        size: number of tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("|".join(pieces)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD, USER, ASSISTANT, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer of a model's folder."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of texts."""
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
