"""The file of a config, and its errors in sentences."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from podium.config.files import KeyPath, in_toml
from podium.config.sections import (
    A2aSection,
    ChatPlannerSection,
    ChatSection,
    JournalSection,
    McpSection,
    Sections,
    WorkerSection,
)
from podium.errors import ConfigError

_FIRST_WORD = re.compile(r"(?:[A-Z]\w*\.)?'?([a-z_]+)\b")
"""The key at the beginning of an error message, alone or after a class, as in `Retry.fallbacks`."""


@dataclass(frozen=True, slots=True)
class Source:
    """The file of a config, and the line of each key."""

    path: Path
    lines: Mapping[KeyPath, int]

    def line(self, where: KeyPath) -> int:
        """Return the line of a key, from 1; for a missing key the line of its table."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)

    def told(self, where: KeyPath, what: str) -> str:
        """Return `what` after the file and the line of a key."""
        return f"{self.path}:{self.line(where)}: {what}"

    def near(self, path: str) -> Path:
        """Resolve a path of the config relative to the config's folder."""
        return self.path.parent / Path(path).expanduser()

    @contextmanager
    def at(self, *where: str) -> Iterator[None]:
        """Put file and line before the `ConfigError`s of the block.

        An error that begins with a key of the table, as in "base_url is not a URL", has the line of that key.
        """
        try:
            yield
        except ConfigError as error:
            named = _FIRST_WORD.match(str(error))
            key = (*where, named[1]) if named else where
            raise ConfigError(self.told(key, in_toml(str(error)))) from error


class Findings:
    """Collects the `ConfigError`s of several blocks, to report all of them at once."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []

    def __bool__(self) -> bool:
        return bool(self._errors)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Catch and keep a `ConfigError` of the block."""
        try:
            yield
        except ConfigError as error:
            self._errors.append(error)

    def raise_found(self) -> None:
        """Raise the collected errors as one error; do nothing if there are none.

        Raises:
            ConfigError: at least one error was collected; one line for each distinct message.
        """
        if self._errors:
            raise ConfigError("\n".join(dict.fromkeys(map(str, self._errors)))) from self._errors[0]


Complaint = tuple[KeyPath, str]
"""The path of a key from the root of the file, and the error there."""

_PASSWORD = re.compile("://[^/@:]*:[^/]*@|[?&](?:ssl)?password=")
_SECRET = ("api_key", "apikey", "key", "token", "secret", "password", "authorization")
_OF_PROCESS, _OF_URL = ("args", "env", "env_from", "folder"), ("headers", "headers_env")
"""Keys of `[workers.NAME]` of type `mcp` that are valid only with `command`, and only with `url`."""
_NOT_HOSTED = {"workers", "pool", "planner", "retry", "policy", "journal"}
"""Tables that have no effect on a hosted conductor."""
_WANTED = {
    "string_type": "write text in quotes",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "bool_type": "write true or false",
    "list_type": 'write a list, as in ["a", "b"]',
    "tuple_type": 'write a list, as in ["a", "b"]',
    "frozen_set_type": 'write a list, as in ["a", "b"]',
    "model_type": "write a table",
    "dict_type": "write a table",
    "finite_number": "write a finite number",
    "greater_than": "it must be above {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "literal_error": "write one of {expected}",
}


def complaints_of(
    error: ValidationError, model: type[BaseModel] = Sections, root: KeyPath = ()
) -> list[Complaint]:
    """Reword the errors of a pydantic validation.

    Args:
        error: the validation error.
        model: the model that was validated; by default the model of the whole file.
        root: the path of the table that was validated.
    """
    found: list[tuple[str, Complaint]] = []
    meant: set[KeyPath] = set()
    for details in error.errors(include_url=False):
        path, table = _walk(details["loc"], model)
        path = (*root, *path)
        if details["type"] == "extra_forbidden":
            text, close = _unknown(path, _properties(table))
            meant.add((*path[:-1], close))
        else:
            path = (*path, "type") if details["type"] == "union_tag_invalid" else path
            text = _sentence(details, path)
        found.append((details["type"], (path, text)))
    # A misspelt key is reported once, not also as missing.
    return [complaint for kind, complaint in found if kind != "missing" or complaint[0] not in meant]


def dangling(sections: Sections, *, has_planner: bool = False) -> Iterator[Complaint]:
    """Yield the missing tables, the references to tables that do not exist, and the keys that conflict.

    Args:
        sections: the tables of core.
        has_planner: whether another package checks the planner, so that `sections` has none.
    """
    yield from wrong_journal(sections.journal)
    if sections.hosted is not None:
        yield from _known(("hosted", "endpoint"), sections.hosted.endpoint, sections.endpoints, "endpoints")
        written = sections.model_fields_set | ({"planner"} if has_planner else set())
        for table in sorted(written & _NOT_HOSTED):
            told = f"[{table}] has no effect with [hosted], because a hosted conductor has its own"
            yield (table,), f"{told}: leave out one of them"
        return
    if sections.planner is None and not has_planner:
        yield (), '[planner] is missing: add it with type = "rule", or with the worker = "NAME" that plans'
    if not sections.workers:
        yield (), "workers are missing: add at least one [workers.NAME]"
    for name, worker in sections.workers.items():
        yield from _wrong_worker(("workers", name), worker, sections)
    if isinstance(sections.planner, ChatPlannerSection):
        yield from _dangling_planner(sections.planner, sections)
    if sections.conductor.accept is not None:
        yield from _wrong_judge(sections.conductor.accept, sections)


def _wrong_worker(table: KeyPath, worker: WorkerSection, sections: Sections) -> Iterator[Complaint]:
    if isinstance(worker, ChatSection):
        yield from _known((*table, "endpoint"), worker.endpoint, sections.endpoints, "endpoints")
    if isinstance(worker, McpSection):
        yield from _wrong_mcp(table, worker)
        yield from _keys_in(table, "env", worker.env, "env_from")
    if isinstance(worker, McpSection | A2aSection):
        yield from _keys_in(table, "headers", worker.headers, "headers_env")


def _wrong_judge(name: str, sections: Sections) -> Iterator[Complaint]:
    path = ("conductor", "accept")
    yield from _known(path, name, sections.workers, "workers")
    if isinstance(sections.workers.get(name), McpSection):
        told = f"'accept' in [conductor] names {name!r}, which is of type 'mcp'"
        yield path, f"{told}: name a worker that can judge an answer"


def _wrong_mcp(table: KeyPath, section: McpSection) -> Iterator[Complaint]:
    """Yield the errors in the command or URL of an MCP server."""
    if (section.command is None) == (section.url is None):
        how = "has neither command nor url" if section.url is None else "has both command and url"
        yield table, f"{_title(table)} {how}: write exactly one of them"
        return
    kind, others = ("url", _OF_PROCESS) if section.command is None else ("command", _OF_URL)
    for key in others:
        if getattr(section, key):
            yield (*table, key), f"{key!r} in {_title(table)} has no effect with {kind!r}: leave it out"


def _keys_in(table: KeyPath, key: str, values: Mapping[str, str], remedy: str) -> Iterator[Complaint]:
    """Yield the API keys in the file, which must be in environment variables."""
    for name in values:
        if any(word in name.lower().replace("-", "_") for word in _SECRET):
            told = f"{name!r} in {_title((*table, key))}: a key must not be in this file"
            yield (*table, key), f"{told}; put it into an environment variable, and name that in {remedy}"


def wrong_journal(journal: JournalSection) -> Iterator[Complaint]:
    """Yield the errors in the path or URL of the journal."""
    places = [key for key in ("path", "url", "url_env") if getattr(journal, key) is not None]
    for key in places[1:]:
        yield ("journal", key), f"[journal] has both {places[0]!r} and {key!r}: write only one"
    if journal.path is not None and "://" in journal.path:
        yield (
            ("journal", "path"),
            "'path' in [journal] is a URL: write it as url or url_env",
        )
    if journal.url is not None and _PASSWORD.search(journal.url):
        told = "'url' in [journal] has a password, which must not be in this file"
        remedy = "put the whole URL into an environment variable, and name that in url_env"
        yield ("journal", "url"), f"{told}: {remedy}"


def _dangling_planner(planner: ChatPlannerSection, sections: Sections) -> Iterator[Complaint]:
    if planner.worker is not None:
        yield from _known(("planner", "worker"), planner.worker, sections.workers, "workers")
        named = sections.workers.get(planner.worker)
        if named is not None and not isinstance(named, ChatSection):
            told = f"'worker' in [planner] names {planner.worker!r}, which is of type {named.type!r}"
            yield ("planner", "worker"), f"{told}: name a worker of type 'chat', which can write a plan"
        for key in ("endpoint", "model", "price", "labels"):
            if getattr(planner, key) is not None:
                yield ("planner", key), f"{key!r} in [planner] is set by the worker: leave it out"
    elif planner.endpoint is None or planner.model is None:
        yield ("planner",), "[planner] has no model: write worker, or endpoint and model"
    if planner.endpoint is not None:
        yield from _known(("planner", "endpoint"), planner.endpoint, sections.endpoints, "endpoints")


def _known(path: KeyPath, name: str, names: Iterable[str], kind: str) -> Iterator[Complaint]:
    if name not in names:
        remedy = _guess(name, names) or f"add a table [{kind}.{name}]"
        yield path, f"{path[-1]!r} in {_title(path[:-1])} names {name!r}, which is not in [{kind}]: {remedy}"


def _sentence(details: ErrorDetails, path: KeyPath) -> str:
    kind, value = details["type"], details["input"]
    if kind == "refused":
        return f"{_title(path)}: {details['msg']}"
    if kind == "missing":
        return f"{_title(path[:-1])} lacks {path[-1]!r}: add it"
    if kind == "string_pattern_mismatch":
        return (
            f"{path[-1]!r} in {_title(path[:-1])} is not the name of an environment variable: "
            "write a name in capitals, as in OPENAI_API_KEY, and never the key itself"
        )
    if kind == "union_tag_invalid":
        known = details["ctx"]["expected_tags"]
        return f"'type' in {_title(path[:-1])} is {_shown(value['type'])}: write one of {known}"
    return f"{str(path[-1])!r} in {_title(path[:-1])} is {_shown(value)}: {remedy_of(details)}"


def remedy_of(details: ErrorDetails) -> str:
    """Return what to write in place of an invalid value."""
    wanted = _WANTED.get(details["type"])
    return details["msg"] if wanted is None else wanted.format(**details.get("ctx", {}))


def _unknown(path: KeyPath, known: Sequence[str]) -> tuple[str, str]:
    """Return the error for an unknown key, and the key that was probably meant, or an empty text."""
    key = str(path[-1])
    if "key_env" in known and key.lower() in _SECRET:
        message = (
            f"{key!r} in {_title(path[:-1])}: a key must not be in this file; "
            'put it into an environment variable, and name that, as in key_env = "OPENAI_API_KEY"'
        )
        return message, ""
    close = get_close_matches(key, known, n=1)
    remedy = _guess(key, known) or f"write one of {', '.join(known)}"
    what = f"unknown key {key!r} in {_title(path[:-1])}" if len(path) > 1 else f"unknown table [{key}]"
    return f"{what}: {remedy}", close[0] if close else ""


def _guess(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def _title(path: KeyPath) -> str:
    return f"[{'.'.join(map(str, path))}]" if path else "the file"


def _shown(value: object) -> str:
    match value:
        case Mapping():
            return "a table"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case _:
            return f"{value!r:.60}"


def _walk(location: Sequence[str | int], model: type[BaseModel]) -> tuple[KeyPath, Mapping[str, Any]]:
    """Return the path of a location without pydantic's union tags, and the schema of its table."""
    root: Mapping[str, Any] = model.model_json_schema()
    node = root
    path: list[str | int] = []
    for part in location[:-1]:
        node = _resolved(node, root)
        if "oneOf" in node:
            choices = [_resolved(choice, root) for choice in node["oneOf"]]
            node = next((choice for choice in choices if _is_tagged(choice, part)), {})
        else:
            path.append(part)
            node = _inside(node, part)
    node = _resolved(node, root)
    last = () if "oneOf" in node else location[-1:]
    return (*path, *last), node


def _is_tagged(choice: Mapping[str, Any], tag: str | int) -> bool:
    return any(each.get("const") == tag for each in choice.get("properties", {}).values())


def _inside(node: Mapping[str, Any], part: str | int) -> Mapping[str, Any]:
    """Return the schema of one key of a table, or of one entry of a list."""
    found = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
    found = found or node.get("additionalProperties")
    found = found or next(iter(node.get("patternProperties", {}).values()), None)
    return found if isinstance(found, Mapping) else {}


def _resolved(node: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    if "anyOf" in node:
        node = node["anyOf"][0]
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        node = root["$defs"][name]
    return node


def _properties(table: Mapping[str, Any]) -> list[str]:
    return list(table.get("properties", {}))
