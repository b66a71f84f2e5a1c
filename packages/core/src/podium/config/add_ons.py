"""Packages that add commands to the command line and tables to `podium.toml`.

A package announces them by entry points: in the group `podium.commands` a command's name and a
`typer.Typer` or a function that returns one; in the group `podium.config` a table's name and a
pydantic model. Nothing of a package is imported before its command runs or its table is read.

The table below names the packages of this project, so that Podium can say how to install one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Literal

from podium.errors import ConfigError
from podium.installing import install_hint

Group = Literal["podium.commands", "podium.config"]


@dataclass(frozen=True, slots=True)
class AddOn:
    """A package of this project that adds commands or tables."""

    distribution: str
    folder: str
    """Below `packages/` in a clone."""
    commands: Mapping[str, str]
    """The commands, each with a summary of one line."""
    tables: tuple[str, ...] = ()
    """The tables of `podium.toml`."""


ADD_ONS = (
    AddOn(
        "podium-shadow",
        "shadow",
        {"shadow": "Compare candidates with what is in production, or delete recorded pairs."},
    ),
)


def announced(group: Group) -> dict[str, EntryPoint]:
    """Return what installed packages announce in a group, by name.

    Raises:
        ConfigError: two packages announce the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            packages = f"{_distribution(other)} and {_distribution(entry)}"
            raise ConfigError(f"{packages} both announce {entry.name!r} in {group}: uninstall one of them")
    return found


def command_summaries() -> dict[str, str]:
    """Return the name and the summary of each command that a package adds, installed or not.

    Raises:
        ConfigError: two packages announce the same command.
    """
    installed = announced("podium.commands")
    known = {name: summary for add_on in ADD_ONS for name, summary in add_on.commands.items()}
    others = {name: _summary(entry) for name, entry in installed.items() if name not in known}
    return {
        name: summary if name in installed else f"{summary} (not installed)"
        for name, summary in (known | others).items()
    }


def absent_command(name: str) -> str | None:
    """Say how to get a known command that no installed package announces; `None` for an unknown name."""
    return next((_absent(a, f"`podium {name}`") for a in ADD_ONS if name in a.commands), None)


def absent_table(name: str) -> str | None:
    """Say how to get a known table that no installed package announces; `None` for an unknown name."""
    return next((_absent(add_on, f"the table [{name}]") for add_on in ADD_ONS if name in add_on.tables), None)


def _absent(add_on: AddOn, what: str) -> str:
    try:
        found = version(add_on.distribution)
    except PackageNotFoundError:
        lacks = f"{what} needs {add_on.distribution}, which is not installed"
    else:
        lacks = f"{what} needs a newer {add_on.distribution} than {found}"
    return f"{lacks}: {install_hint(add_on.folder)}"


def _summary(entry: EntryPoint) -> str:
    """Return the summary of the distribution: the command's own would need its import."""
    facts = {} if entry.dist is None else entry.dist.metadata.json
    return str(facts.get("summary") or f"From {_distribution(entry)}.")


def _distribution(entry: EntryPoint) -> str:
    return entry.module if entry.dist is None else entry.dist.name
