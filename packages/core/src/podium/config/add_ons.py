"""Packages that add commands to the command line and tables to `podium.toml`.

A package declares them as entry points, and is imported when its command runs or its table is read:

- `podium.commands`: the name of a command, or of a command in a group, as in `evals.record`; it refers to a
  `typer.Typer` or a function with the command's options.
- `podium.parts`: a part of a command of core; it refers to a function.
- `podium.config`: the name of a table; it refers to a pydantic model.
- `podium.planners`: the name of a type of `[planner]`; it refers to an `AddedPlanner`.

`ADD_ONS` lists the packages of this project, so that errors can say how to install them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any, Literal

from podium.errors import ConfigError, install_hint

Group = Literal["podium.commands", "podium.parts", "podium.config", "podium.planners"]


@dataclass(frozen=True, slots=True)
class AddOn:
    """A package of this project that adds commands or tables."""

    distribution: str
    commands: Mapping[str, str] = field(default_factory=dict)
    """The commands, each with a summary; of those outside groups at most 45 characters."""
    tables: tuple[str, ...] = ()
    """The tables of `podium.toml`."""
    planners: tuple[str, ...] = ()
    """The types of `[planner]`."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """The parts of commands of core, each with the command line that needs it."""


ADD_ONS = (
    AddOn(
        "podium-evals",
        {
            "evals": "Record, measure and compare answers.",
            "evals.record": "Record answers of models.",
            "evals.questions": "Write new questions of Reasoning Gym to a file.",
            "evals.tune": "Find out what pays for your workers, and write it into podium.toml.",
            "evals.run": "Compare ways to answer with the best single worker.",
            "audit.costs": "Report what model calls cost, and failures.",
        },
        planners=("router", "tuned"),
    ),
    AddOn(
        "podium-server",
        {
            "batch": "Answer the questions of a file.",
            "keys": "Manage the API keys of a server.",
        },
        tables=("server", "models"),
        parts={"serve": "`podium serve` without --mcp", "open": "`podium show --open`"},
    ),
    AddOn("podium-shadow", {"evals.shadow": "Compare candidates with the production system."}),
    AddOn("podium-train", planners=("conductor",)),
)


@cache
def installed(group: Group) -> Sequence[EntryPoint]:
    """Return the entry points of a group; it takes 20 ms to read the metadata of all packages."""
    return tuple(entry_points(group=group))


def announced(group: Group) -> dict[str, EntryPoint]:
    """Return the entry points of a group in the installed packages, by name.

    Raises:
        ConfigError: two packages have an entry point of the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in installed(group):
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            told = (
                f"{_distribution(other)} and {_distribution(entry)} both have the entry point {entry.name!r}"
            )
            raise ConfigError(f"{told} in {group}: uninstall one of them")
    return found


def command_summaries() -> dict[str, str]:
    """Return the name and the summary of each command that a package adds, whether installed or not."""
    added = announced("podium.commands")
    known = {name: summary for add_on in ADD_ONS for name, summary in add_on.commands.items()}
    others = {name: _summary(entry) for name, entry in added.items() if name not in known}
    places = {*added, *(name.partition(".")[0] for name in added)}
    return {
        name: summary if name in places else f"{summary} (not installed)"
        for name, summary in (known | others).items()
    }


def absent(kind: Literal["commands", "parts", "tables", "planners"], name: str) -> str | None:
    """Return how to install the package of a name; `None` for an unknown name."""
    add_on = next((add_on for add_on in ADD_ONS if name in getattr(add_on, kind)), None)
    if add_on is None:
        return None
    what = {
        "commands": f"`podium {name.replace('.', ' ')}`",
        "parts": add_on.parts.get(name),
        "tables": f"the table [{name}]",
        "planners": f"a planner of type {name!r}",
    }
    try:
        lacks = f"{what[kind]} needs a newer {add_on.distribution} than {version(add_on.distribution)}"
    except PackageNotFoundError:
        lacks = f"{what[kind]} needs {add_on.distribution}, which is not installed"
    return f"{lacks}: {install_hint(add_on.distribution)}"


def load_part(name: str) -> Any:
    """Return the function with a part of a command of core, or raise `ConfigError` if it is not installed."""
    if entry := announced("podium.parts").get(name):
        return entry.load()
    raise ConfigError(absent("parts", name))


def _summary(entry: EntryPoint) -> str:
    """Return the summary of the command's distribution, because the command's own needs its import."""
    facts = {} if entry.dist is None else entry.dist.metadata.json
    return str(facts.get("summary") or f"From {_distribution(entry)}.")


def _distribution(entry: EntryPoint) -> str:
    return entry.module if entry.dist is None else entry.dist.name
