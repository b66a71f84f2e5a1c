"""Reads the input of a batch, one line at a time."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from podium.cli.screen import counted
from podium.errors import ConfigError, PodiumError
from podium_server.api.bodies import read_body
from podium_server.batch.line_json import json_bytes, read_object
from podium_server.batch.openai_lines import OpenAILine
from podium_server.batch.question import Question, Request
from podium_server.http import BadRequest
from podium_server.models import Catalogue, ModelUnknown, ServedModel

Form = Literal["plain", "openai"]

_MOST_BYTES = 64 * 2**20
"""Maximum length of a line."""
_DIGITS = 24
"""Hexadecimal digits of the hash in a run's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line with a request."""

    number: int
    """From 1."""
    id: str
    run_id: str
    given: Mapping[str, Any]
    """The line as JSON."""
    request: Request
    model: ServedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that cannot be run."""

    number: int
    id: str | None
    """`None` if it has none that can be read."""
    given: object
    """The line as JSON, or as text if it is not JSON."""
    error: PodiumError


class Input:
    """The lines of a file.

    A file whose name ends in `.txt` has a question in each line; any other file has a JSON object in each
    line. Only the hashes of the ids stay in memory.
    """

    def __init__(self, path: Path, name: str, catalogue: Catalogue, model: str | None) -> None:
        self._path = path
        self._name = name
        self._catalogue = catalogue
        try:
            self._model = next(iter(catalogue)) if model is None else self._find(model)
        except ModelUnknown as error:
            raise ConfigError(f"--model: {error}") from None
        self.count = 0
        """The number of lines that are not empty."""
        self.repeated = 0
        """The number of lines without an id that are equal to an earlier line."""
        self._count()
        self.form: Form = "openai" if self._is_openai() else "plain"

    @property
    def repeated_told(self) -> str:
        """The warning about repeated lines."""
        told = f"{counted(self.repeated, 'line')} without an id, equal to earlier lines"
        return f"{told}: each is a run of its own, and is paid for"

    def __iter__(self) -> Iterator[Line | BadLine]:
        seen: dict[bytes, int] = {}
        for number, raw in self._texts():
            given: object = raw.decode("utf-8", "replace")
            ident: str | None = None
            try:
                if len(raw) > _MOST_BYTES:
                    given = given[:200] if isinstance(given, str) else given
                    raise BadRequest(f"the line is longer than {_MOST_BYTES} bytes")
                given = self._object(raw)
                ident = _id_of(given)
                if ident is not None and _is_again(ident, seen):
                    told = f"an earlier line has the id {ident!r:.80}"
                    raise BadRequest(f"{told}: give each line another id")
                yield self._line(number, given, seen)
            except PodiumError as error:
                yield BadLine(number=number, id=ident, given=given, error=error)

    def _count(self) -> None:
        seen = set[bytes]()
        for _, raw in self._texts():
            self.count += 1
            key = sha256(raw.strip(b"\r\n")).digest()[: _DIGITS // 2]
            if key in seen and self._has_no_id(raw):
                self.repeated += 1
            seen.add(key)

    def _has_no_id(self, raw: bytes) -> bool:
        try:
            given = self._object(raw)
        except BadRequest:
            return False
        return "custom_id" not in given and given.get("id") is None

    def _texts(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not empty, each with its number."""
        try:
            with self._path.open("rb") as file:
                number = 0
                while raw := file.readline(_MOST_BYTES + 1):
                    number += 1
                    rest = raw
                    while len(rest) > _MOST_BYTES and not rest.endswith(b"\n"):
                        rest = file.readline(_MOST_BYTES + 1)
                    text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                    if text.strip():
                        yield number, text
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be read: {error.strerror}") from error

    def _is_openai(self) -> bool:
        """Return whether the first JSON object of the file is a line of OpenAI's batch files."""
        for _, raw in self._texts():
            try:
                return "custom_id" in self._object(raw)
            except BadRequest:
                continue
        return False

    def _object(self, raw: bytes) -> dict[str, Any]:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest("the line is not UTF-8 text") from error
        return {"query": text.strip("\r\n")} if self._path.suffix == ".txt" else read_object(text)

    def _line(self, number: int, given: dict[str, Any], seen: dict[bytes, int]) -> Line:
        read = _read_request(given, self.form)
        model = self._model_of(read.model)
        read.check(model)
        facts = {"model": model.name, **read.content()}
        ident = _hash(self.form, facts) if read.id is None else str(read.id)
        if read.id is None and _is_again(ident, seen):
            ident = f"{ident}-{seen[_key(ident)]}"
        run_id = f"{self._name}-{_hash(ident, facts)}"
        return Line(number=number, id=ident, run_id=run_id, given=given, request=read, model=model)

    def _model_of(self, named: object) -> ServedModel:
        if named is not None and not isinstance(named, str):
            raise BadRequest(f"the model {named!r:.80} is not a name", param="model")
        return self._model if named is None else self._find(named)

    def _find(self, name: str) -> ServedModel:
        try:
            return self._catalogue.find(name)
        except ModelUnknown:  # its text is for clients of a server
            known = [model.name for model in self._catalogue]
            told = f"there is no model {name!r:.200}: {_choice(name, 'models', known)}"
            raise ModelUnknown(told) from None


def _read_request(given: Mapping[str, Any], form: Form) -> OpenAILine | Question:
    """Return the request of a line."""
    kind = OpenAILine if form == "openai" else Question
    fields = [name for name in kind.model_fields if name != "failure"]
    for name in given:
        if name not in kind.model_fields:
            told = f"{name!r:.80} is not a field of a line: {_choice(name, 'fields', fields)}"
            raise BadRequest(told, code="unknown_parameter", param=name)
    raw = json_bytes(given)
    return read_body(raw, OpenAILine) if form == "openai" else read_body(raw, Question)


def _choice(name: str, what: str, known: Iterable[str]) -> str:
    """Return the names that exist, and the one that was probably meant."""
    names = list(known)
    near, told = get_close_matches(name, names, n=1), f"{what} are {', '.join(names)}"
    return f"did you mean {near[0]!r}? The {told}" if near else f"the {told}"


def _id_of(given: Mapping[str, Any]) -> str | None:
    named = given.get("custom_id", given.get("id"))
    return str(named) if isinstance(named, str | int) else None


def _is_again(ident: str, seen: dict[bytes, int]) -> bool:
    """Count an id, and return whether it was counted before."""
    key = _key(ident)
    seen[key] = seen.get(key, 0) + 1
    return seen[key] > 1


def _key(ident: str) -> bytes:
    return bytes.fromhex(_hash("id", ident))


def _hash(*facts: object) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:_DIGITS]
