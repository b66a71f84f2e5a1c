"""Cuts text and Markdown files into passages that can be cited.

Knows no index and no query.
"""

import re
from dataclasses import dataclass, field

MAX_CHARS = 1_500
"""Longest passage, in characters; only a single line may make it longer."""
MAX_LINE = 3_000
"""Longest line that is kept in one piece, in characters."""
_OVERLAP = 2

_LINE_END = re.compile("\r\n|\r|\n")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINES = '=-~^"'
_UNDERLINE = re.compile(r"([=\-~^\"])\1{2,}[ \t]*")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file, word for word."""

    source: str
    """Path of the file in its folder, with `/`."""
    line: int
    """Where it starts, from 1."""
    headings: tuple[str, ...]
    """The headings it stands under, outermost first."""
    text: str


def cut(source: str, text: str) -> list[Passage]:
    """Cut a file into passages: at headings, then between paragraphs, then between lines.

    Paragraphs stay together while they fit. Where a paragraph is cut, the next passage
    begins with its last two lines again, so that no sentence is lost between the two.
    Headings are those of Markdown, and underlined lines as in reStructuredText; a line in
    a code block is none.

    Args:
        source: path the passages are cited by.
        text: what stands in the file.
    """
    cutter = _Cutter(source)
    lines = _LINE_END.split(text)
    for number, line in enumerate(lines, start=1):
        below = lines[number] if number < len(lines) else ""
        cutter.take(number, line.rstrip(), below)
    cutter.end()
    return cutter.passages


@dataclass(slots=True)
class _Cutter:
    source: str
    passages: list[Passage] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)
    """The passage that is being put together, its lines with their numbers."""
    bare: bool = True
    """Whether it holds headings and blank lines only."""
    size: int = 0
    fence: str = ""
    """What closes the code block the current line is in; empty outside of one."""

    def take(self, number: int, line: str, below: str) -> None:
        heading = None if self.fence else _heading(line, below)
        if heading:
            self.end()
            self.headings = [kept for kept in self.headings if kept[0] < heading[0]] + [heading]
        elif not line and not self.fence and self.size > MAX_CHARS // 2:
            self.end()
        elif self.size + len(line) > MAX_CHARS and not self.bare:
            overlap = [kept for kept in self.lines[-_OVERLAP:] if len(kept[1]) <= MAX_CHARS // 6]
            self.end()
            self.lines, self.size = overlap, sum(len(text) for _, text in overlap)
        for start in range(0, max(len(line), 1), MAX_LINE):
            if start:
                self.end()
            piece = line[start : start + MAX_LINE]
            self.lines.append((number, piece))
            self.size += len(piece) + 1
            self.bare = self.bare and (bool(heading) or not piece)
        self._follow_fence(line)

    def end(self) -> None:
        """Finish the passage, if it says anything."""
        while self.lines and not self.lines[0][1]:
            del self.lines[0]
        if not self.bare:
            text = "\n".join(line for _, line in self.lines).rstrip()
            titles = tuple(title for _, title in self.headings)
            self.passages.append(Passage(self.source, self.lines[0][0], titles, text))
        self.lines, self.size, self.bare = [], 0, True

    def _follow_fence(self, line: str) -> None:
        mark = _FENCE.match(line)
        if mark is None:
            return
        if not self.fence:
            self.fence = mark[1]
        elif mark[1].startswith(self.fence):
            self.fence = ""


def _heading(line: str, below: str) -> tuple[int, str] | None:
    """Return the level and title of a heading."""
    found = _HEADING.fullmatch(line)
    if found:
        return len(found[1]), found[2].rstrip(" \t#") or found[2]
    mark = _UNDERLINE.fullmatch(below)
    if mark is None or not line[:1].strip() or len(line) > 120 or _UNDERLINE.fullmatch(line):
        return None
    # A rule under a longer line ends a paragraph; an underline is about as long as its title.
    return (1 + _UNDERLINES.index(mark[1]), line) if len(below.strip()) * 2 >= len(line) else None
