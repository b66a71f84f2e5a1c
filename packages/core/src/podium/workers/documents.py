"""An offline worker that searches a folder of text and Markdown."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import anyio.to_thread

from podium.errors import ConfigError
from podium.messages import Completion, storable
from podium.references import refers_back
from podium.terms import terms, words
from podium.workers.folder import Stamp, documents_in, read_document
from podium.workers.passages import Passage, cut
from podium.workers.worker import FREE, Brief, Card, Request, Worker, brief_of

if TYPE_CHECKING:
    from podium.workers.ranking import Ranking

_DESCRIPTION = (
    "Searches the documents in {folder}: looks up who, what, where, how and why, and answers with "
    "the passages that speak of it, word for word with their sources."
)
_MAX_QUERY_CHARS = 16 * 1024
_LEAST_SHARE = 0.35
_NAMED_WORDS = 8


class Documents(Worker):
    """Searches a folder and its subfolders by BM25 and answers with passages and their sources.

    Reads `.md`, `.markdown`, `.txt` and `.rst` files of at most 2 MiB; hidden files and
    folders and links out of the folder are passed over. The first call reads the folder,
    in a thread; later ones read again what has changed since. Words match in any case,
    without accents and English endings; Chinese, Japanese and Korean by characters and
    pairs of them. Thai and other scripts without spaces match whole runs only.

    Where nothing is found, the answer says so; that is no error.

    Args:
        folder: where the documents are.
        name: what plans call it.
        description: what its card says; `None` describes a search of this folder.
        top: most passages of an answer.

    Raises:
        ConfigError: there is no such folder, `top` is below 1, or the extra `offline` is
            not installed.
    """

    def __init__(
        self, folder: str | Path, *, name: str = "documents", description: str | None = None, top: int = 4
    ) -> None:
        try:
            from podium.workers.ranking import Ranking  # noqa: PLC0415 - needs an extra
        except ImportError as error:
            message = "the document search needs bm25s: pip install 'podium[offline]'"
            raise ConfigError(message) from error
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ConfigError(f"there is no folder {str(folder)!r} to search: name one that exists")
        if top < 1:
            raise ConfigError(f"top {top} must be 1 or more")
        told = _DESCRIPTION.format(folder=repr(self.folder.resolve().name))
        self.card = Card(name=name, description=told if description is None else description, price=FREE)
        self._top = top
        self._rank = Ranking
        self._lock = Lock()
        self._stamps: dict[str, Stamp] = {}
        self._passages: dict[str, list[Passage]] = {}
        self._ranking = Ranking([])

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Search for what the subtask speaks of.

        Raises:
            WorkerUnavailable: the folder is gone or cannot be read.
            WorkerRefused: it has too many documents.
        """
        search = partial(self._answer, brief_of(request))
        text = await anyio.to_thread.run_sync(search, abandon_on_cancel=True)
        if request.stream:
            yield text
        yield Completion(text)

    def _answer(self, brief: Brief) -> str:
        query = brief.subtask[:_MAX_QUERY_CHARS]
        if refers_back(query):
            query += "".join(f"\n{shown.subtask[:_MAX_QUERY_CHARS]}" for shown in brief.visible)
        found = self._refreshed().best(terms(query), self._top, least=_LEAST_SHARE)
        if not found:
            named = ", ".join(dict.fromkeys(words(query)[:_NAMED_WORDS]))
            return f"No passage in {self.folder.resolve().name!r} speaks of {storable(named) or 'that'}."
        return "\n\n".join(_cited(passage) for passage in found)

    def _refreshed(self) -> "Ranking":
        # Two calls at once would otherwise read and index the same folder twice.
        with self._lock:
            stamps = documents_in(self.folder)
            if stamps != self._stamps:
                changed = [source for source, stamp in stamps.items() if self._stamps.get(source) != stamp]
                kept = {source: self._passages[source] for source in stamps if source in self._passages}
                kept |= {source: cut(source, read_document(self.folder, source)) for source in changed}
                self._ranking = self._rank([passage for source in stamps for passage in kept[source]])
                self._passages, self._stamps = kept, stamps
            return self._ranking


def _cited(passage: Passage) -> str:
    under = f" ({' > '.join(passage.headings)})" if passage.headings else ""
    return f"[{passage.source}:{passage.line}]{under}\n\n{passage.text}"
