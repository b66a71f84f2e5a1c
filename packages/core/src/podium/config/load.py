"""Finds the config file, reads it, and reports its errors with their lines."""

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import EntryPoint
from math import nan
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, create_model

from podium.config.add_ons import absent, announced
from podium.config.complaints import Complaint, complaints_of, dangling, wrong_journal
from podium.config.config import Config
from podium.config.plans import PlanFile
from podium.config.sections import OWN_PLANNERS, AddedPlanner, Sections, TeamSection
from podium.config.source import Findings, KeyPath, Source, lines_of, read_text, why_unreadable
from podium.errors import ConfigError, PlanInvalid
from podium.journal import SqlCache, SqlJournal
from podium.plan_text.saved import Parameter, SavedPlan

_MOST_BYTES = 2**20
_Model = TypeVar("_Model", bound=BaseModel)
_PARAMETER = re.compile(r"(?:parameter '|value for )(\w+)")
_SYNTAX_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)


def find_config(path: str | Path | None = None) -> Path:
    """Return the path of the config.

    The path is the first of: `path`, the value of `PODIUM_CONFIG`, `podium.toml` in the current folder,
    `podium/podium.toml` in the user's config folder.

    Raises:
        ConfigError: no config was found.
    """
    choices = _choices(path)
    found = _first(choices)
    if found is None:
        told = " nor ".join(str(choice) for choice in choices)
        raise ConfigError(f"no config at {told}: write one with `podium init`, or name one with --config")
    return found


def find_journal(path: str | Path | None = None, place: str | None = None) -> SqlJournal:
    """Return the journal of the config; without a config, the journal in the user's state folder.

    Invalid workers and missing keys of the config raise no error here.

    Args:
        path: the config; see `find_config`.
        place: the file or the URL of the journal, instead of a config.

    Raises:
        ConfigError: the config is invalid, or turns the journal off; or there is no journal at `place`.
    """
    if place is not None:
        return SqlJournal(_location(path, place))
    config = _with_journal(path)
    if config is None:
        return SqlJournal()
    if (journal := config.journal()) is None:
        raise ConfigError(f"{config.path}: runs are not recorded: remove `off` in [journal]")
    return journal


def find_shared_cache(path: str | Path | None = None, place: str | None = None) -> SqlCache:
    """Return the cache in the database of `find_journal`, even if the journal is off.

    Raises:
        ConfigError: see `find_journal`.
    """
    if place is not None:
        return SqlCache(_location(path, place))
    config = _with_journal(path)
    return SqlCache() if config is None else config.shared_cache()


def load_config(path: str | Path) -> Config:
    """Read and check a `podium.toml`.

    `Config.conductor` reads the keys from the environment and opens files; this function does not.

    Raises:
        ConfigError: the file cannot be read or is invalid; one line for each error, with file and line.
    """
    return _load(Path(path), ())


def _load(path: Path, around: tuple[Path, ...]) -> Config:
    """Read a file, and the files of the conductors in its pool; `around` are the files that need it."""
    sections, source = _checked(path)
    _refuse(source, list(dangling(sections)))
    teams, around = dict[str, Config](), (*around, path.resolve())
    for name, section in sections.workers.items():
        if isinstance(section, TeamSection):
            inner = source.near(section.config)
            with source.at("workers", name, "config"):
                if inner.resolve() in around:
                    raise ConfigError(
                        f"{section.config} has this conductor in its own pool: name another file"
                    )
                teams[name] = _load(inner, around)
    return Config(sections, source, _saved_plans(sections, source), teams)


def read_table(path: Path, model: type[_Model], absent: str = "name another file") -> _Model:
    """Return the content of another TOML file than a config.

    Args:
        path: the file.
        model: the table.
        absent: what to do if there is no such file, as a part of the error message.

    Raises:
        ConfigError: the file cannot be read, or is invalid; the message has the lines.
    """
    source, data = _parsed(path, absent)
    return _validated(source, data, model)


def load_plan(path: str | Path) -> SavedPlan:
    """Read and check the file of a saved plan.

    Raises:
        ConfigError: the file cannot be read or is invalid; the message has the file and the line.
    """
    path, where = Path(path), KeyPath()
    source, data = _parsed(path, "write one with `podium plan --save`, or name another")
    found = _validated(source, data, PlanFile)
    try:
        parameters = dict[str, Parameter]()
        for name, each in found.parameters.items():
            where = ("parameters", name)
            line = f"{path}, line {source.line(where)}"
            parameters[name] = Parameter(each.type, each.default, each.description, line)
        where = ()
        return SavedPlan(**(dict(found) | {"parameters": parameters}))
    except PlanInvalid as error:
        told = str(error)
        if where:
            told = f"parameter {where[1]}: {told}"
        elif error.step is not None:
            where = ("steps", error.step)
        elif named := _PARAMETER.search(told):
            where = ("parameters", named[1])
        raise ConfigError(source.told(where, told)) from error


def _saved_plans(sections: Sections, source: Source) -> Mapping[str, SavedPlan]:
    """Read the files of `[plans]`; they may use each other, but not in a circle."""
    findings, found = Findings(), dict[str, SavedPlan]()
    for name, path in sections.plans.items():
        with findings.collected(), source.at("plans", name):
            found[name] = load_plan(source.near(path))
            if (own := found[name].name) != name:
                raise ConfigError(f"{name} is the file {path}, whose name is {own!r}: write the same name")
    findings.raise_found()
    try:
        tuple(TopologicalSorter({name: plan.uses for name, plan in found.items()}).static_order())
    except CycleError as error:
        told = " uses ".join(error.args[1])
        raise ConfigError(source.told(("plans", error.args[1][0]), f"{told}: remove one of these")) from None
    return found


def _location(path: str | Path | None, place: str) -> str | Path:
    """Return the location of a journal that exists: a typing error creates no file."""
    if path is not None:
        raise ConfigError("a config is named beside a journal: name one of them")
    scheme, separator, rest = place.partition("://")
    if separator and scheme != "sqlite":
        return place
    file = Path(rest.removeprefix("/") if separator else place)
    if not file.is_file():
        raise ConfigError(f"there is no journal {file}: name the file, or the URL, of another")
    return file


def _with_journal(path: str | Path | None) -> Config | None:
    """Find the config, and check only its `[journal]`; `None` if there is no config."""
    found = _first(_choices(path))
    if found is None:
        return None
    sections, source = _checked(found)
    _refuse(source, list(wrong_journal(sections.journal)))
    return Config(sections, source)


def _choices(path: str | Path | None) -> tuple[Path, ...]:
    """Return the possible paths of the config; only the named path if there is one."""
    if named := path or os.environ.get("PODIUM_CONFIG"):
        return (Path(named),)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return (Path("podium.toml"), Path(home) / "podium" / "podium.toml")


def _first(choices: tuple[Path, ...]) -> Path | None:
    """Return the first path with a file; a single path is returned without a check."""
    return choices[0] if len(choices) == 1 else next((c for c in choices if c.is_file()), None)


def _checked(path: Path) -> tuple[Sections, Source]:
    """Read a file and validate each table on its own, those of other packages by their entry points."""
    source, data = _parsed(path, "name another, or write one with `podium init`")
    added, lacking = dict[str, type[BaseModel]](), list[Complaint]()
    others = [name for name in data if name not in Sections.model_fields]
    installed = announced("podium.config") if others else {}
    for name in others:
        if name in installed:
            added[name] = _model(installed[name], BaseModel, f"the table [{name}]")
        elif told := absent("tables", name):
            lacking.append(((name,), told))
    planner = data.get("planner")
    kind = planner.get("type") if isinstance(planner, Mapping) else None
    if isinstance(kind, str) and kind not in OWN_PLANNERS:
        if entry := announced("podium.planners").get(kind):
            added["planner"] = _model(entry, AddedPlanner, f"the planner {kind!r}")
        elif told := absent("planners", kind):
            lacking.append((("planner", "type"), told))
    gone = {where[0] for where, _ in lacking}
    data = {name: table for name, table in data.items() if name not in gone}
    model = _with_added(frozenset(added.items())) if added else Sections
    return _validated(source, data, model, lacking), source


@cache
def _with_added(added: frozenset[tuple[str, type[BaseModel]]]) -> type[Sections]:
    """Return the model of a config with tables of other packages; pydantic takes 20 ms to make it."""
    tables: dict[str, Any] = {name: (table, ...) for name, table in added}
    return create_model("File", __base__=Sections, **tables)


def _model(entry: EntryPoint, base: type[BaseModel], what: str) -> type[BaseModel]:
    model = entry.load()
    if isinstance(model, type) and issubclass(model, base):
        return model
    wanted = "a pydantic model" if base is BaseModel else f"an {base.__name__}"
    raise ConfigError(f"the entry point {entry.value!r} of {what} is not {wanted}")


def _validated(
    source: Source, data: Mapping[str, Any], model: type[_Model], also: Sequence[Complaint] = ()
) -> _Model:
    try:
        # JSON, because pydantic then reads tables as dataclasses, lists as tuples and sets, and stays strict.
        found = model.model_validate_json(json.dumps(data, default=lambda _: nan))
    except ValidationError as error:
        _refuse(source, [*complaints_of(error, model), *also])
        raise
    _refuse(source, also)
    return found


def _refuse(source: Source, found: Sequence[Complaint]) -> None:
    """Raise all complaints as one error, in the order of their lines; do nothing if there are none."""
    if found:
        in_order = sorted(found, key=lambda complaint: source.line(complaint[0]))
        raise ConfigError("\n".join(source.told(where, what) for where, what in in_order))


def _parsed(path: Path, absent: str) -> tuple[Source, dict[str, Any]]:
    try:
        text = read_text(path, _MOST_BYTES)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: invalid UTF-8: save the file as UTF-8") from error
    except FileNotFoundError as error:
        raise ConfigError(f"{path} cannot be read: the file does not exist: {absent}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {why_unreadable(error)}") from error
    try:
        return Source(path, lines_of(text)), tomllib.loads(text)
    except ValueError as error:
        found = _SYNTAX_LINE.fullmatch(str(error))
        at, told = (found[2], found[1]) if found else (text.count("\n") + 1, error)
        raise ConfigError(f"{path}:{at}: invalid TOML: {told}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply: use fewer levels") from error
