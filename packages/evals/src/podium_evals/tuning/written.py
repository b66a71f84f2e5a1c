"""Writes what was found into `podium.toml`: other tables, comments and the order of lines stay."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
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
_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]")


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

    `[planner]` is replaced, and, if the way uses them or an earlier tuning wrote them, `next_best` and
    `ask_again` of `[retry]`. Questions that are routed by kind need `measured` of `[pool]`, which is added.
    The file before the first tuning is kept with the ending `.before-tune`.

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
    """Return the text of `podium.toml` with the settings.

    Raises:
        ConfigError: the text is written in a way that cannot be edited line by line.
    """
    retry: dict[str, Any] = {}
    if settings.next_best:
        retry = {"next_best": list(settings.next_best), "ask_again": False}
    before = tomllib.loads(text)
    pool = before.get("pool", {})
    if settings.by_kind:
        pool = {"measured": MEASURED} | pool
    lines = _without_table([line for line in text.splitlines() if line != _TOLD], "planner")
    owned = ("next_best", "ask_again") if retry or _is_tuned(text) else ()
    lines = _with_keys(lines, "retry", retry, owned)
    lines = _with_keys(lines, "pool", pool, ("measured",))
    told = [_TOLD, "[planner]", *_lines(settings.planner)]
    found = "\n".join([*_trimmed(lines), "", *told]) + "\n"
    after = _parsed(found)
    kept = {key: value for key, value in before.get("retry", {}).items() if key not in owned}
    wanted = {**before, "planner": dict(settings.planner), "retry": kept | retry, "pool": pool}
    if {key: value for key, value in wanted.items() if value} != {k: v for k, v in after.items() if v}:
        raise ConfigError(
            "the file cannot be edited line by line. Write these lines yourself, in place of [planner]:\n"
            + "\n".join([*told[1:], "[retry]", *_lines(retry), "[pool]", *_lines(pool)])
        )
    return found


def _is_tuned(text: str) -> bool:
    return _TOLD in text.splitlines()


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]


def _tables(lines: Sequence[str]) -> list[str]:
    """Return for each line the name of the table that it is in."""
    found, table = [], ""
    for line in lines:
        header = _HEADER.match(line)
        table = header[1].replace('"', "") if header else table
        found.append(table)
    return found


def _without_table(lines: Sequence[str], name: str) -> list[str]:
    """Return the lines without a table and the tables inside of it; comments before the next table stay."""
    kept: list[str] = []
    notes: list[str] = []
    for line, table in zip(lines, _tables(lines), strict=True):
        is_out = table == name or table.startswith(f"{name}.")
        is_note = not line.strip() or line.lstrip().startswith("#")
        if not is_out:
            kept += [*notes, line]
        notes = [*notes, line] if is_out and is_note else []
    return [*kept, *notes]


def _with_keys(lines: Sequence[str], name: str, keys: Mapping[str, Any], owned: Sequence[str]) -> list[str]:
    """Return the lines with keys in a table, in place of the keys that this program owns."""
    old = re.compile(rf"^\s*(?:{'|'.join(owned) or '(?!)'})\s*=")
    tables = _tables(lines)
    kept = [
        line for line, table in zip(lines, tables, strict=True) if not (table == name and old.match(line))
    ]
    if not keys:
        return kept
    heads = [place for place, line in enumerate(kept) if (m := _HEADER.match(line)) and m[1] == name]
    if heads:
        return [*kept[: heads[0] + 1], *_lines(keys), *kept[heads[0] + 1 :]]
    return [*_trimmed(kept), "", f"[{name}]", *_lines(keys)]


def _trimmed(lines: Sequence[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return list(lines[:end])
