"""Writes what was found into `podium.toml`: other tables, comments and the order of lines stay."""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podium.config import Config
from podium.config.source import why_unreadable, why_unwritable
from podium.errors import ConfigError
from podium.workers.rates import MeasuredFile, identity_of, write_measured
from podium_evals.router.router import Router

MEASURED, ROUTER = "measured.json", "router.npz"
"""The files beside `podium.toml`."""
BEFORE = ".before-tune"
"""The end of the name of the copy of `podium.toml` as it was."""
_TOLD = "# Written by `podium evals tune`."
_HEAD, _HEADER = "[]", re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `podium.toml` says for a way to answer."""

    ask: tuple[str, ...] = ()
    """The workers that answer each question; empty for a router."""
    by_kind: bool = False
    """Whether a question of a measured kind goes to the worker with the best rate in `measured`."""
    measured: MeasuredFile | None = None
    router: Router | None = None
    next_best: tuple[str, ...] = ()
    """The workers that are asked after an empty answer; empty if the same worker is asked again."""

    @property
    def planner(self) -> Mapping[str, Any]:
        """The table `[planner]`."""
        if self.router is not None:
            return {"type": "router", "path": ROUTER}
        return {"type": "tuned", "ask": list(self.ask)} | ({"by_kind": True} if self.by_kind else {})


def write_settings(settings: Settings, config: Config) -> Sequence[str]:
    """Write the settings into the file of a config, and the files that they name beside it.

    The keys of `[planner]` are replaced. `next_best` and `ask_again` of `[retry]` are, too, if the way uses
    them or an earlier tuning wrote them. Questions that are routed by kind need `measured` of `[pool]`, which
    is added. The file before the first tuning is kept with the ending `.before-tune`.

    Returns:
        The names of the written files.

    Raises:
        ConfigError: a file cannot be written, or the file cannot be edited without a change of another table.
    """
    path = config.path
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {why_unreadable(error)}") from error
    changed = edited(text, settings)
    written = [path.name]
    try:
        if settings.measured is not None:
            written.append(write_rates(settings.measured, config))
        if settings.router is not None:
            settings.router.save(path.parent / ROUTER)
            written.append(ROUTER)
        copy = path.with_name(path.name + BEFORE)
        if not (copy.exists() and _is_tuned(text)):  # the copy is the file of its author
            copy.write_text(text, "utf-8")
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(changed, "utf-8")
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
    return written


def write_rates(measured: MeasuredFile, config: Config) -> str:
    """Write rates into the file that a config names, with the digests of its workers; return the file's name.

    Raises:
        ConfigError: the file cannot be written.
    """
    path = config.measured_path or config.path.parent / MEASURED
    write_measured(_identified(measured, config), path)
    return path.name


def _identified(measured: MeasuredFile, config: Config) -> MeasuredFile:
    """Return the rates with the digests of the workers of a config."""
    names = {name for entry in measured.kinds.values() for name in entry.rates}
    identities = {name: identity_of(config.worker(name)) for name in sorted(names)}
    kinds = {
        kind: entry.model_copy(
            update={
                "rates": {
                    name: rate.model_copy(update={"identity": identities[name]})
                    for name, rate in entry.rates.items()
                }
            }
        )
        for kind, entry in measured.kinds.items()
    }
    return MeasuredFile(kinds=kinds)


def edited(text: str, settings: Settings) -> str:
    """Return the text of `podium.toml` with the settings; all comments stay.

    Raises:
        ConfigError: the text is written in a way that cannot be edited line by line.
    """
    retry: dict[str, Any] = {}
    if settings.next_best:
        retry = {"next_best": list(settings.next_best), "ask_again": False}
    before = tomllib.loads(text)
    pool = {"measured": MEASURED} if settings.by_kind and "measured" not in before.get("pool", {}) else {}
    owned = ("next_best", "ask_again") if retry or _is_tuned(text) else ()
    parts = _with_keys(_parts(text), "retry", retry, owned)
    parts = _with_keys(_with_keys(parts, "pool", pool, ()), "planner", settings.planner)
    if not _is_tuned(text):
        head = next(place for place, each in enumerate(parts) if (each.table, each.key) == ("planner", _HEAD))
        parts.insert(head, _Part(_TOLD))
    found = "\n".join(each.text for each in parts) + "\n"
    kept = {key: value for key, value in before.get("retry", {}).items() if key not in owned}
    changes = {
        "planner": dict(settings.planner),
        "retry": kept | retry,
        "pool": before.get("pool", {}) | pool,
    }
    after = _parsed(found)
    if after is None or _full(before | changes) != _full(after):
        raise ConfigError(
            "the file cannot be edited line by line. Write these lines yourself, in place of [planner]:\n"
            + "\n".join(
                line
                for name, keys in (("planner", settings.planner), ("retry", retry), ("pool", pool))
                for line in (f"[{name}]", *_lines(keys))
            )
        )
    return found


def _is_tuned(text: str) -> bool:
    return _TOLD in text.splitlines()


def _full(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in tables.items() if table}


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A header, a key with its value, or a line without either."""

    text: str
    table: str = ""
    key: str = ""
    """`_HEAD` for a header."""


def _parts(text: str) -> list[_Part]:
    found: list[_Part] = []
    table, begun = "", list[str]()
    for line in text.splitlines():
        begun.append(line)
        whole = "\n".join(begun)
        parsed = _parsed(whole)
        if parsed is None:
            continue  # the value has more lines
        header = _HEADER.match(whole)
        table = re.sub(r"[\s\"']", "", header[1]) if header else table
        found.append(_Part(whole, table, _HEAD if header else next(iter(parsed), "")))
        begun.clear()
    return found


def _with_keys(
    parts: Sequence[_Part], name: str, keys: Mapping[str, Any], owned: Collection[str] | None = None
) -> list[_Part]:
    """Return the parts with keys in a table, in place of the keys that this program owns.

    Args:
        parts: the file.
        name: the table.
        keys: the keys to write.
        owned: the keys to remove; `None` for all, and for the tables inside of this one.
    """

    def is_owned(part: _Part) -> bool:
        if owned is None and part.table.startswith(f"{name}."):
            return part.key != ""
        return part.table == name and part.key not in ("", _HEAD) and (owned is None or part.key in owned)

    found: list[_Part] = []
    left, place = dict(keys), 0
    for part in parts:
        if part.table == name and part.key in left:
            comments = "".join(f"  {each}" for each in _comments(part.text))
            (line,) = _lines({part.key: left.pop(part.key)})
            found.append(_Part(line + comments, name, part.key))
        else:
            found += [_Part(each, name) for each in _comments(part.text)] if is_owned(part) else [part]
        if part.table == name and part.key in (_HEAD, *keys):
            place = len(found)
    if left and not place:
        found += [_Part(""), _Part(f"[{name}]", name, _HEAD)]
        place = len(found)
    found[place:place] = [_Part(line, name) for line in _lines(left)]
    return found


def _comments(text: str) -> Iterator[str]:
    """Yield the comments in a part: what can be cut from the end of a line without another value."""
    lines, parsed = text.split("\n"), _parsed(text)
    for number, line in enumerate(lines):
        for place, sign in enumerate(line):
            if (
                sign == "#"
                and _parsed("\n".join([*lines[:number], line[:place], *lines[number + 1 :]])) == parsed
            ):
                yield line[place:]
                break


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]
