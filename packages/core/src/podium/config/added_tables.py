"""Checks the tables of `podium.toml` that belong to other packages, with the models of these packages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from podium.config.add_ons import absent_table, announced
from podium.config.complaints import Complaint, complaints_of
from podium.config.sections import Sections
from podium.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AddedTables:
    """The tables of a file that belong to other packages."""

    tables: dict[str, BaseModel] = field(default_factory=dict)
    """The valid tables, by name."""
    complaints: list[Complaint] = field(default_factory=list)
    """The errors in the other tables."""
    names: set[str] = field(default_factory=set)
    """All tables that belong to other packages; core checks the rest of the file."""


def read_added_tables(data: Mapping[str, object]) -> AddedTables:
    """Check the tables of other packages. Packages without a table in the file are not imported.

    Raises:
        ConfigError: two packages have an entry point for the same table, or one is not a pydantic model.
    """
    added = AddedTables()
    others = [name for name in data if name not in Sections.model_fields]
    installed = announced("podium.config") if others else {}
    for name in others:
        if name in installed:
            added.names.add(name)
            model = installed[name].load()
            if not (isinstance(model, type) and issubclass(model, BaseModel)):
                told = f"the entry point {installed[name].value!r} of the table [{name}]"
                raise ConfigError(f"{told} is not a pydantic model")
            try:
                added.tables[name] = model.model_validate(data[name])
            except ValidationError as error:
                added.complaints.extend(complaints_of(error, model, (name,)))
        elif absent := absent_table(name):
            added.names.add(name)
            added.complaints.append(((name,), absent))
    return added
