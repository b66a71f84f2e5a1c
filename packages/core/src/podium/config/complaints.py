"""The errors of a config in sentences: pydantic's, and references to what does not exist."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from math import isnan
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from podium.config.section import VARIABLE
from podium.config.sections import (
    A2aSection,
    ChatPlannerSection,
    ChatSection,
    CommandSection,
    JournalSection,
    McpSection,
    Sections,
    WorkerSection,
)
from podium.config.source import FIRST_KEY, KeyPath

Complaint = tuple[KeyPath, str]
"""The path of a key from the root of the file, and the error there."""

_PASSWORD = re.compile("://[^/@:]*:[^/]*@|[?&](?:ssl)?password=")
_SECRET = ("api_key", "apikey", "key", "token", "secret", "password", "authorization")
_OF_PROCESS, _OF_URL = ("args", "env", "env_from", "folder"), ("headers", "headers_env")
"""Keys of `[workers.NAME]` of type `mcp` that are valid only with `command`, and only with `url`."""
_OF_PLANS = {"spelling", "show", "examples", "reasons", "workflows", "constrain", "cache"}
"""Keys of `[planner]` that have no effect on a model that works turn by turn."""
_NOT_HOSTED = {"workers", "pool", "planner"}
"""Tables that have no effect on a hosted conductor."""
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_WANTED = {
    "string_type": "write text in quotes",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "write a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "write a number"),
    "bool_type": "write true or false",
    **dict.fromkeys(("list_type", "tuple_type", "frozen_set_type"), 'write a list, as in ["a", "b"]'),
    **dict.fromkeys(("model_type", "dataclass_type", "dict_type"), "write a table"),
    "finite_number": "write a finite number",
    "greater_than": "it must be above {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "less_than": "it must be below {lt:g}",
    "less_than_equal": "it must be {le:g} or less",
    "literal_error": "write one of {expected}",
}


def complaints_of(error: ValidationError, model: type[BaseModel]) -> list[Complaint]:
    """Reword the errors of a file's validation."""
    found: list[tuple[str, Complaint]] = []
    meant: set[KeyPath] = set()
    for details in error.errors(include_url=False):
        kind = details["type"]
        path, known = _walk(details["loc"], model)
        if kind in _UNKNOWN:
            text, close = _unknown(path, known)
            meant.add((*path[:-1], close))
        else:
            path, text = _sentence(details, path, known)
        found.append((kind, (path, text)))
    # A misspelt key is reported once, not also as missing.
    return [complaint for kind, complaint in found if kind != "missing" or complaint[0] not in meant]


def _sentence(details: ErrorDetails, path: KeyPath, known: Sequence[str]) -> Complaint:
    value, key, table = details["input"], str(path[-1]) if path else "", _title(path[:-1])
    match details["type"]:
        case "value_error" | "refused":
            refused = details.get("ctx", {}).get("error") or details["msg"]
            return _refused(str(refused), path, known)
        case "json_invalid":
            told = "the tables are nested too deeply: use fewer levels"
        case "missing":
            told = f"{table} lacks {key!r}: add it"
        case "string_pattern_mismatch" if details["ctx"]["pattern"] == VARIABLE:
            told = f"{key!r} in {table} is not the name of an environment variable: "
            told += "write a name in capitals, as in OPENAI_API_KEY, and never the key itself"
        case "union_tag_invalid":
            told = f"'type' in {_title(path)} is {_shown(value['type'])}: "
            path, told = (*path, "type"), f"{told}write one of {details['ctx']['expected_tags']}"
        case _:
            told = f"{key!r} in {table} is {_shown(value)}: {remedy_of(details)}"
    return path, told


def _refused(text: str, path: KeyPath, known: Sequence[str]) -> Complaint:
    """Return the error of a table's own check, which may begin with a key."""
    named, title = FIRST_KEY.match(text), _title(path)
    if not named or named[1] not in known:
        return path, f"{title}: {text}"
    rest = text[named.end() :]
    told = f"{named[1]!r} in {title}{rest}" if rest.startswith(" is ") else f"{title}: {text}"
    return (*path, named[1]), told


def remedy_of(details: ErrorDetails) -> str:
    """Return what to write in place of an invalid value."""
    wanted = _WANTED.get(details["type"])
    return details["msg"] if wanted is None else wanted.format(**details.get("ctx", {}))


def _unknown(path: KeyPath, known: Sequence[str]) -> tuple[str, str]:
    """Return the error for an unknown key, and the key that was probably meant, or an empty text."""
    key, table = str(path[-1]), _title(path[:-1])
    if "key_env" in known and key.lower() in _SECRET:
        told = f"{key!r} in {table}: a key must not be in this file; put it into an environment variable, and"
        return f'{told} name that, as in key_env = "OPENAI_API_KEY"', ""
    close = get_close_matches(key, known, n=1)
    remedy = _guess(key, known) or f"write one of {', '.join(known)}"
    what = f"unknown key {key!r} in {table}" if len(path) > 1 else f"unknown table [{key}]"
    return f"{what}: {remedy}", close[0] if close else ""


def _walk(location: Sequence[str | int], model: type[BaseModel]) -> tuple[KeyPath, Sequence[str]]:
    """Return a location without pydantic's names of union members, and the keys of its last table."""
    kinds, known = list(_choices(model)), list[str]()
    path: list[str | int] = []
    for part in location:
        tables = [keys for kind in kinds if (keys := keys_of(kind))]
        tagged = [kind for kind in kinds if part in get_args(keys_of(kind).get("type"))]
        if len(tables) > 1 and tagged:
            kinds = tagged
            continue
        if part == "[key]" or (
            len(kinds) > 1 and not tables and all(isinstance(kind, type) for kind in kinds)
        ):
            continue
        known = [key for keys in tables for key in keys]
        kinds = [found for kind in kinds for found in _choices(_inside(kind, part))]
        path.append(part)
    last = [key for kind in kinds for key in keys_of(kind)]
    return tuple(path), last or known


def keys_of(kind: Any) -> Mapping[str, Any]:
    """Return the keys of a table with their types; empty for other types."""
    if is_dataclass(kind):
        return {each.name: each.type for each in fields(kind) if each.init}
    if isinstance(kind, type) and issubclass(kind, BaseModel) and not issubclass(kind, RootModel):
        return {name: info.rebuild_annotation() for name, info in kind.model_fields.items()}
    return {}


def _inside(kind: Any, part: str | int) -> Any:
    """Return the type of a key of a table, or of an entry of a list; `None` if there is none."""
    entries = get_args(kind)
    return keys_of(kind).get(str(part)) or (entries[0 if isinstance(part, int) else -1] if entries else None)


def _choices(kind: Any) -> Iterator[Any]:
    """Yield the types of a value: the members of a union, without annotations."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _choices(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for each in get_args(kind):
            yield from _choices(each)
    elif isinstance(kind, type) and issubclass(kind, RootModel):
        yield from _choices(kind.model_fields["root"].annotation)
    else:
        yield kind


def dangling(sections: Sections) -> Iterator[Complaint]:
    """Yield the missing tables, the references to tables that do not exist, and the keys that conflict."""
    yield from wrong_journal(sections.journal)
    if sections.hosted is not None:
        yield from _known(("hosted", "endpoint"), sections.hosted.endpoint, sections.endpoints, "endpoints")
        for table in sorted(sections.model_fields_set & _NOT_HOSTED):
            told = f"[{table}] has no effect with [hosted], because a hosted conductor has its own"
            yield (table,), f"{told}: leave out one of them"
        return
    if sections.planner is None:
        yield (), '[planner] is missing: add it with type = "rule", or with the worker = "NAME" that plans'
    if not sections.workers:
        yield (), "workers are missing: add at least one [workers.NAME]"
    for name, worker in sections.workers.items():
        yield from _wrong_worker(("workers", name), worker, sections)
    if isinstance(sections.planner, ChatPlannerSection):
        yield from _wrong_planner(sections.planner, sections)
    judge, path = sections.conductor.accept, ("conductor", "accept")
    if judge is not None:
        yield from _known(path, judge, sections.workers, "workers")
        if isinstance(sections.workers.get(judge), McpSection):
            told = f"'accept' in [conductor] names {judge!r}, which is of type 'mcp'"
            yield path, f"{told}: name a worker that can judge an answer"


def _wrong_worker(table: KeyPath, worker: WorkerSection, sections: Sections) -> Iterator[Complaint]:
    if isinstance(worker, ChatSection):
        yield from _known((*table, "endpoint"), worker.endpoint, sections.endpoints, "endpoints")
    if isinstance(worker, McpSection):
        if (worker.command is None) == (worker.url is None):
            how = "has neither command nor url" if worker.url is None else "has both command and url"
            yield table, f"{_title(table)} {how}: write exactly one of them"
        else:
            kind, others = ("url", _OF_PROCESS) if worker.command is None else ("command", _OF_URL)
            for key in filter(worker.__getattribute__, others):
                yield (*table, key), f"{key!r} in {_title(table)} has no effect with {kind!r}: leave it out"
    if isinstance(worker, McpSection | CommandSection):
        yield from _keys_in((*table, "env"), worker.env, "env_from")
    if isinstance(worker, McpSection | A2aSection):
        yield from _keys_in((*table, "headers"), worker.headers, "headers_env")


def _keys_in(path: KeyPath, values: Mapping[str, str], remedy: str) -> Iterator[Complaint]:
    """Yield the API keys in the file, which must be in environment variables."""
    for name in values:
        if any(word in name.lower().replace("-", "_") for word in _SECRET):
            told = f"{name!r} in {_title(path)}: a key must not be in this file"
            yield path, f"{told}; put it into an environment variable, and name that in {remedy}"


def wrong_journal(journal: JournalSection) -> Iterator[Complaint]:
    """Yield the errors in the path or URL of the journal."""
    places = [key for key in ("path", "url", "url_env") if getattr(journal, key) is not None]
    for key in places[1:]:
        yield ("journal", key), f"[journal] has both {places[0]!r} and {key!r}: write only one"
    if journal.path is not None and "://" in journal.path:
        yield ("journal", "path"), "'path' in [journal] is a URL: write it as url or url_env"
    if journal.url is not None and _PASSWORD.search(journal.url):
        told = "'url' in [journal] has a password, which must not be in this file"
        remedy = "put the whole URL into an environment variable, and name that in url_env"
        yield ("journal", "url"), f"{told}: {remedy}"


def _wrong_planner(planner: ChatPlannerSection, sections: Sections) -> Iterator[Complaint]:
    if planner.worker is not None:
        path = ("planner", "worker")
        yield from _known(path, planner.worker, sections.workers, "workers")
        named = sections.workers.get(planner.worker)
        if named is not None and not isinstance(named, ChatSection):
            told = f"'worker' in [planner] names {planner.worker!r}, which is of type {named.type!r}"
            yield path, f"{told}: name a worker of type 'chat', which can write a plan"
        for key in ("endpoint", "model", "price", "labels"):
            if getattr(planner, key) is not None:
                yield ("planner", key), f"{key!r} in [planner] is set by the worker: leave it out"
    elif planner.endpoint is None or planner.model is None:
        yield ("planner",), "[planner] has no model: write worker, or endpoint and model"
    if planner.workflows and planner.spelling == "lists":
        remedy = "set spelling to 'rows' or 'json'"
        yield ("planner", "workflows"), f"plans in lists cannot have workflows: {remedy}"
    others = _OF_PLANS if planner.turns is not None else ("native",)
    for key in sorted(planner.model_fields_set.intersection(others)):
        told = "without 'turns'" if planner.turns is None else "with 'turns'"
        yield ("planner", key), f"{key!r} in [planner] has no effect {told}: leave it out"
    if planner.endpoint is not None:
        yield from _known(("planner", "endpoint"), planner.endpoint, sections.endpoints, "endpoints")


def _known(path: KeyPath, name: str, names: Iterable[str], kind: str) -> Iterator[Complaint]:
    if name not in names:
        remedy = _guess(name, names) or f"add a table [{kind}.{name}]"
        yield path, f"{path[-1]!r} in {_title(path[:-1])} names {name!r}, which is not in [{kind}]: {remedy}"


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
        case float() if isnan(value):
            return "a date, or nan"
        case bool():
            return str(value).lower()
        case _:
            return f"{value!r:.60}"
