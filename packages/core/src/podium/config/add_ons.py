"""Packages that add commands to the command line and tables to `podium.toml`.

A package declares them as entry points. In the group `podium.commands`, an entry point has the name of the
command and refers to a `typer.Typer` or a function that returns one. In the group `podium.config`, it has
the name of the table and refers to a pydantic model. In the group `podium.planners`, it has the name of a
type of `[planner]` and refers to an `AddedPlanner`. A package is imported when its command runs or its table
is read.

`ADD_ONS` lists the packages of this project, so that errors can say how to install them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Literal

from podium.errors import ConfigError, install_hint

Group = Literal["podium.commands", "podium.config", "podium.planners"]


@dataclass(frozen=True, slots=True)
class AddOn:
    """A package of this project that adds commands or tables."""

    distribution: str
    folder: str
    """Its folder in `packages/`."""
    commands: Mapping[str, str]
    """The commands, each with a one-line summary."""
    tables: tuple[str, ...] = ()
    """The tables of `podium.toml`."""
    planners: tuple[str, ...] = ()
    """The types of `[planner]`."""


ADD_ONS = (
    AddOn(
        "podium-evals",
        "evals",
        {
            "audit-costs": "Report the cost and failures of model calls in traces, logs and journals.",
            "record": "Record answers of models, and later evaluate plans and routers on them.",
            "evals": "Compare ways to answer questions on recorded answers, or estimate the possible "
            "gains of a pool.",
            "calibrate": "Ask the workers a few questions of each kind, and measure the share of right "
            "answers.",
            "train": "Train planners on recorded answers.",
        },
        planners=("router",),
    ),
    AddOn(
        "podium-server",
        "server",
        {
            "batch": "Answer the questions of a file, with bounded concurrency, within one budget.",
            "serve": "Serve the conductor to clients of OpenAI's API.",
            "keys": "Create, list, show, rotate and revoke the API keys of a server.",
            "open": "Show a recorded run in a browser.",
        },
        tables=("server", "models"),
    ),
    AddOn(
        "podium-shadow",
        "shadow",
        {"shadow": "Compare candidates with the production system, or delete recorded pairs."},
    ),
    AddOn("podium-train", "train", {}, planners=("conductor",)),
)


def announced(group: Group) -> dict[str, EntryPoint]:
    """Return the entry points of a group in the installed packages, by name.

    Raises:
        ConfigError: two packages have an entry point of the same name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            told = (
                f"{_distribution(other)} and {_distribution(entry)} both have the entry point {entry.name!r}"
            )
            raise ConfigError(f"{told} in {group}: uninstall one of them")
    return found


def command_summaries() -> dict[str, str]:
    """Return the name and the summary of each command that a package adds, whether installed or not."""
    installed = announced("podium.commands")
    known = {name: summary for add_on in ADD_ONS for name, summary in add_on.commands.items()}
    others = {name: _summary(entry) for name, entry in installed.items() if name not in known}
    return {
        name: summary if name in installed else f"{summary} (not installed)"
        for name, summary in (known | others).items()
    }


def absent(kind: Literal["commands", "tables", "planners"], name: str) -> str | None:
    """Return how to install the package of a name; `None` for an unknown name."""
    add_on = next((add_on for add_on in ADD_ONS if name in getattr(add_on, kind)), None)
    if add_on is None:
        return None
    what = {"commands": f"`podium {name}`", "tables": f"the table [{name}]"}
    needs = f"{what.get(kind, f'a planner of type {name!r}')} needs"
    try:
        lacks = f"{needs} a newer {add_on.distribution} than {version(add_on.distribution)}"
    except PackageNotFoundError:
        lacks = f"{needs} {add_on.distribution}, which is not installed"
    return f"{lacks}: {install_hint(add_on.folder)}"


def _summary(entry: EntryPoint) -> str:
    """Return the summary of the command's distribution, because the command's own needs its import."""
    facts = {} if entry.dist is None else entry.dist.metadata.json
    return str(facts.get("summary") or f"From {_distribution(entry)}.")


def _distribution(entry: EntryPoint) -> str:
    return entry.module if entry.dist is None else entry.dist.name
