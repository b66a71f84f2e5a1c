"""An offline worker that searches a folder of text and Markdown files."""

import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from threading import Lock

import anyio.to_thread

from podium.errors import ConfigError, WorkerUnavailable
from podium.plan_text.literals import words
from podium.types.messages import Completion, storable
from podium.workers.worker import FREE, Card, Request, Worker, step_input_of

SUFFIXES = frozenset((".md", ".markdown", ".txt", ".rst"))
MAX_BYTES = 2 * 2**20
"""Maximum size of a file, in bytes; larger files are ignored."""
MAX_CHARS = 1_500
"""Maximum length of a passage, in characters."""

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Passage:
    """A verbatim part of a file."""

    source: str
    """Path of the file in its folder, with `/`."""
    line: int
    """Its first line, from 1."""
    headings: tuple[str, ...]
    """The headings above it, outermost first."""
    text: str


def documents_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the path of each document in a folder, with its modification time and size.

    Hidden files, links out of the folder, very large files, and files that are not regular are ignored.

    Raises:
        WorkerUnavailable: the folder does not exist or cannot be read.
    """
    try:
        root = folder.resolve(strict=True)
        with os.scandir(root):
            pass
    except OSError as error:
        raise WorkerUnavailable(f"folder {folder.name!r} cannot be read: {error.strerror}") from error
    found: dict[str, tuple[int, int]] = {}
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in files if not name.startswith(".")):
            try:
                # Reading a pipe with the name of a text file would never end.
                if path.suffix.lower() not in SUFFIXES or not path.is_file():
                    continue
                if path.is_symlink() and not path.resolve().is_relative_to(root):
                    continue
                status = path.stat()
            except (OSError, RuntimeError):
                continue
            if status.st_size <= MAX_BYTES:
                found[path.relative_to(root).as_posix()] = (status.st_mtime_ns, status.st_size)
    return dict(sorted(found.items()))


def passages_of(folder: Path, source: str) -> list[Passage]:
    """Cut a document at Markdown headings, between paragraphs, and where a passage would be too long.

    Bytes that are not UTF-8 are replaced. A binary file and a file that no longer exists have no passages.
    """
    try:
        raw = (folder / source).read_bytes()
    except OSError:
        return []
    if b"\0" in raw:
        return []
    found: list[Passage] = []
    headings: list[tuple[int, str]] = []
    lines: list[tuple[int, str]] = []
    size, in_code = 0, False

    def finish() -> None:
        text = "\n".join(line for _, line in lines).rstrip()
        if text:
            found.append(Passage(source, lines[0][0], tuple(title for _, title in headings), text))
        lines.clear()

    for number, line in _lines(storable(raw.decode("utf-8-sig", errors="replace"))):
        heading = None if in_code else _HEADING.fullmatch(line)
        if heading or size + len(line) > MAX_CHARS or (not line and not in_code and size > MAX_CHARS // 2):
            finish()
            size = 0
        in_code ^= _FENCE.match(line) is not None
        if heading:
            level = len(heading[1])
            headings = [*(outer for outer in headings if outer[0] < level), (level, heading[2].rstrip("# "))]
        elif line or lines:
            lines.append((number, line))
            size += len(line) + 1
    finish()
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers; very long lines in several pieces."""
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        for start in range(0, len(line) or 1, MAX_CHARS):
            yield number, line[start : start + MAX_CHARS].rstrip()


class Index:
    """Scores texts by BM25, in the form of Lucene.

    Args:
        texts: the terms of each text.
    """

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self._size = len(texts)
        self._weights: dict[str, dict[int, float]] = {}
        mean = sum(map(len, texts)) / max(1, len(texts))
        for number, terms in enumerate(texts):
            for term, count in Counter(terms).items():
                weight = count / (count + _K1 * (1 - _B + _B * len(terms) / mean))
                self._weights.setdefault(term, {})[number] = weight

    def scores(self, terms: Iterable[str]) -> dict[int, float]:
        """Return the scores of the texts that have one of the terms, by number."""
        found: dict[int, float] = {}
        for weights in (self._weights[term] for term in terms if term in self._weights):
            rarity = log(1 + (self._size - len(weights) + 0.5) / (len(weights) + 0.5))
            for number, weight in weights.items():
                found[number] = found.get(number, 0.0) + rarity * weight
        return found


_K1, _B = 1.5, 0.75
_DESCRIPTION = (
    "Searches the documents in {folder}: looks up who, what, where, how and why, and answers with "
    "the passages that speak of it, word for word with their sources."
)
_MAX_QUERY_CHARS = 16 * 1024
_LEAST_SHARE = 0.35


class Documents(Worker):
    """Searches a folder and its subfolders by BM25, and answers with passages and their sources.

    The worker reads `.md`, `.markdown`, `.txt` and `.rst` files of at most 2 MiB. Hidden files and folders,
    and links out of the folder, are ignored. The first call reads the folder, in a thread. A later call reads
    the folder again if it has changed. English words match without their endings, Chinese and Japanese by
    single characters. In Thai and other scripts without spaces, only whole runs of characters match.

    If nothing is found, the answer says so, and the run is `partial`.

    Args:
        folder: the folder with the documents.
        name: its name in plans.
        description: the description on its card; `None` for a description of a search in this folder.
        top: maximum number of passages in an answer.
        labels: labels for the rules of a policy; use `untrusted` if others write the documents.

    Raises:
        ConfigError: the folder does not exist, or `top` is below 1.
    """

    uses_tokens = False
    reads_prose = False

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "documents",
        description: str | None = None,
        top: int = 3,
        labels: Iterable[str] = (),
    ) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ConfigError(f"folder {str(folder)!r} does not exist: name another folder")
        if top < 1:
            raise ConfigError(f"top {top} must be 1 or more")
        told = _DESCRIPTION.format(folder=repr(self.folder.resolve().name))
        said = told if description is None else description
        self.card = Card(name=name, description=said, price=FREE, labels=frozenset(labels))
        self._top = top
        self._lock = Lock()
        self._read: dict[str, tuple[int, int]] = {}
        self._passages: list[Passage] = []
        self._index = Index(())

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Search for the words of the subtask.

        Raises:
            WorkerUnavailable: the folder does not exist or cannot be read.
        """
        query = step_input_of(request).subtask[:_MAX_QUERY_CHARS]
        answer = await anyio.to_thread.run_sync(self._answer, query, abandon_on_cancel=True)
        if request.stream:
            yield answer.text
        yield answer

    def _answer(self, query: str) -> Completion:
        # Without the lock, two concurrent calls would index the same folder twice.
        with self._lock:
            self._refresh()
            found = self._best(words(query))
        if not found:
            asked = storable(" ".join(query.split())[:100])
            text = f"No passage found in {self.folder.resolve().name!r} for: {asked}"
            return Completion(text, missing="nothing was found")
        told = f"Retrieved from {self.folder.resolve().name!r}, best match first:"
        return Completion("\n\n".join((told, *map(_cited, found))))

    def _refresh(self) -> None:
        documents = documents_in(self.folder)
        if documents == self._read:
            return
        self._passages = [passage for source in documents for passage in passages_of(self.folder, source)]
        self._index = Index([words(" ".join((p.source, *p.headings, p.text))) for p in self._passages])
        self._read = documents

    def _best(self, terms: list[str]) -> list[Passage]:
        """Return the passages that match `terms`, best first; equal passages keep their order."""
        scores = self._index.scores(dict.fromkeys(terms))
        enough = max(scores.values(), default=0.0) * _LEAST_SHARE
        order = sorted(scores, key=lambda number: (-scores[number], number))
        return [self._passages[number] for number in order[: self._top] if scores[number] >= enough]


def _cited(passage: Passage) -> str:
    under = f" ({' > '.join(passage.headings)})" if passage.headings else ""
    return f"[{passage.source}:{passage.line}]{under}\n\n{passage.text}"
