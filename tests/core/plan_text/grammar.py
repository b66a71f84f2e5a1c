"""A reader of the grammars that hold decoders to a spelling."""

import json
import re
from collections.abc import Iterator

TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[\w-]+|[()|?*])')


class Grammar:
    """A tiny reader of GBNF: literals, classes, rules, groups, `|`, `?` and `*`."""

    def __init__(self, source: str) -> None:
        lines = (line.split(" ::= ", 1) for line in source.splitlines())
        self.rules = {name: self._alternatives(TOKEN.findall(body)) for name, body in lines}

    def accepts(self, text: str) -> bool:
        return len(text) in set(self._rule("root", text, 0))

    def _alternatives(self, tokens: list[str]) -> list[list[tuple[object, str]]]:
        found: list[list[tuple[object, str]]] = [[]]
        while tokens:
            part = tokens.pop(0)
            if part == ")":
                break
            if part == "|":
                found.append([])
            else:
                item = self._alternatives(tokens) if part == "(" else part
                found[-1].append((item, tokens.pop(0) if tokens and tokens[0] in "?*" else ""))
        return found

    def _rule(self, name: str, text: str, start: int) -> Iterator[int]:
        return self._any(self.rules[name], text, start)

    def _any(self, alternatives: list[list[tuple[object, str]]], text: str, start: int) -> Iterator[int]:
        for items in alternatives:
            ends = {start}
            for item, count in items:
                ends = self._repeat(item, count, text, ends)
            yield from ends

    def _repeat(self, item: object, count: str, text: str, starts: set[int]) -> set[int]:
        ends = set(starts) if count else set[int]()
        new = {end for start in starts for end in self._one(item, text, start)}
        while count == "*" and new - ends:
            ends |= new
            new = {end for start in new for end in self._one(item, text, start)}
        return ends | new

    def _one(self, item: object, text: str, start: int) -> Iterator[int]:
        if isinstance(item, list):
            yield from self._any(item, text, start)
        elif str(item)[0] == '"':
            literal = json.loads(str(item))
            if text.startswith(literal, start):
                yield start + len(literal)
        elif str(item)[0] == "[":
            if re.compile(str(item)).match(text, start):
                yield start + 1
        else:
            yield from self._rule(str(item), text, start)
