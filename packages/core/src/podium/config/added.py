"""The tables and planners that other packages add to `podium.toml`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from podium.config.add_ons import absent_planner, absent_table, announced
from podium.config.sections import OWN_PLANNERS, Fallback, Section, Sections
from podium.config.source import Complaint, complaints_of
from podium.errors import ConfigError
from podium.planners.planner import Planner
from podium.workers.worker import Worker


class AddedPlanner(Section, ABC):
    """Base class of the table `[planner]` with a type that another package adds.

    The package has an entry point in the group `podium.planners`, with the name of the type, that refers to
    a subclass. Its fields are the other keys of the table.
    """

    type: str
    """Kind of the planner."""
    fallback: Fallback | None = None
    """Fallback planner, used if this planner fails; the run is then partial."""

    @abstractmethod
    def build(self, folder: Path, workers: Sequence[str]) -> Planner:
        """Build the planner.

        Args:
            folder: the folder of `podium.toml`, to which paths are relative.
            workers: the names of the tables `[workers.NAME]`.

        Raises:
            ConfigError: a value is invalid. If the message begins with a key of the table, the error has the
                line of this key.
        """

    def workers(self) -> Sequence[Worker]:
        """Return additional workers that the plans need. They are added to the workers of the file."""
        return ()


_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(slots=True)
class AddedTables:
    """The tables of a file that belong to other packages."""

    tables: dict[str, BaseModel] = field(default_factory=dict)
    """The valid tables, by name."""
    planner: AddedPlanner | None = None
    """The table `[planner]`, if it is valid and its type belongs to another package."""
    complaints: list[Complaint] = field(default_factory=list)
    """The errors in the other tables."""
    names: set[str] = field(default_factory=set)
    """All tables that belong to other packages; core checks the rest of the file."""


def read_added_tables(data: Mapping[str, object]) -> AddedTables:
    """Check the tables of other packages. Packages without a table in the file are not imported.

    Raises:
        ConfigError: two packages have an entry point of the same name, or an entry point refers to a class of
            the wrong kind.
    """
    added = AddedTables()
    others = [name for name in data if name not in Sections.model_fields]
    installed = announced("podium.config") if others else {}
    for name in others:
        if name in installed:
            found = _read(added, name, data[name], _model(installed[name], BaseModel, f"the table [{name}]"))
            if found is not None:
                added.tables[name] = found
        elif absent := absent_table(name):
            added.names.add(name)
            added.complaints.append(((name,), absent))
    _read_planner(added, data.get("planner"))
    return added


def _read_planner(added: AddedTables, table: object) -> None:
    """Check `[planner]` if its type is not a type of core. Core reports unknown types."""
    name = table.get("type") if isinstance(table, Mapping) else None
    if not isinstance(name, str) or name in OWN_PLANNERS:
        return
    if entry := announced("podium.planners").get(name):
        model = _model(entry, AddedPlanner, f"the planner {name!r}")  # type: ignore[type-abstract]  # it is a bound
        added.planner = _read(added, "planner", table, model)
    elif absent := absent_planner(name):
        added.names.add("planner")
        added.complaints.append((("planner", "type"), absent))


def _read(added: AddedTables, name: str, table: object, model: type[_Model]) -> _Model | None:
    """Validate a table, and keep its errors."""
    added.names.add(name)
    try:
        return model.model_validate(table)
    except ValidationError as error:
        added.complaints.extend(complaints_of(error, model, (name,)))
        return None


def _model(entry: EntryPoint, base: type[_Model], what: str) -> type[_Model]:
    model = entry.load()
    if isinstance(model, type) and issubclass(model, base):
        return model
    wanted = "a pydantic model" if base is BaseModel else f"an {base.__name__}"
    raise ConfigError(f"the entry point {entry.value!r} of {what} is not {wanted}")
