"""Examples for supervised training, as JSON lines.

Each line has the messages that a conductor is sent, and the text that it should answer:

    {"messages": [{"role": "system", "content": "…"}, {"role": "user", "content": "…"}], "completion": "…",
     "source": "best of 8 of qwen", "reward": 1.0, "kind": "sums"}
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from podium.errors import ConfigError
from podium.types import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One plan to learn."""

    messages: tuple[Message, ...]
    """What the conductor is sent; only text."""
    completion: str
    """What it should answer."""
    source: str
    """Who wrote the plan, for readers."""
    reward: float
    """The reward of the plan, 0 to 1."""
    kind: str
    """The kind of the question."""

    @property
    def key(self) -> str:
        """A digest of the messages and the completion."""
        content = [[(message.role, message.text) for message in self.messages], self.completion]
        return sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenExamples:
    """What was written."""

    written: int
    repeated: int
    """Number of examples that were left out, because an equal one was written before."""
    kinds: Mapping[str, int]
    """Number of written examples of each kind, sorted by kind."""
    sources: Mapping[str, int]
    """Number of written examples of each source, sorted by source."""


def write_examples(path: Path | str, examples: Iterable[Example]) -> WrittenExamples:
    """Write examples to a file, which is replaced as a whole; each example is written once.

    Raises:
        ConfigError: there are no examples, or the file cannot be written.
    """
    path = Path(path)
    found: dict[str, Example] = {}
    count = 0
    for example in examples:
        count += 1
        found.setdefault(example.key, example)
    if not found:
        raise ConfigError(f"there are no examples for {path}: no plan was good enough")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text("".join(map(_line, found.values())), encoding="utf-8")
        draft.replace(path)
    except (OSError, UnicodeEncodeError) as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error}") from error
    return WrittenExamples(
        written=len(found),
        repeated=count - len(found),
        kinds=dict(sorted(Counter(each.kind for each in found.values()).items())),
        sources=dict(sorted(Counter(each.source for each in found.values()).items())),
    )


def read_examples(path: Path | str) -> Sequence[Example]:
    """Read a file of examples.

    Raises:
        ConfigError: the file cannot be read, has no examples, or a line is not an example.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    found = [_example(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"{path} has no examples")
    return found


def _line(example: Example) -> str:
    row = {
        "messages": [{"role": message.role, "content": message.text} for message in example.messages],
        "completion": example.completion,
        "source": example.source,
        "reward": example.reward,
        "kind": example.kind,
    }
    return json.dumps(row, ensure_ascii=False) + "\n"


def _example(line: str, where: str) -> Example:
    try:
        row: dict[str, Any] = json.loads(line)
        return Example(
            messages=tuple(Message(each["role"], _text(each["content"])) for each in row["messages"]),
            completion=_text(row["completion"]),
            source=_text(row["source"]),
            reward=float(row["reward"]),
            kind=_text(row["kind"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{where} is not an example: {type(error).__name__}: {error}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value
