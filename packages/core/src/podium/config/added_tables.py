"""Tables of `podium.toml` that belong to other packages, checked by the models that these announce."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from podium.config.add_ons import absent_table, announced
from podium.config.complaints import Complaint, complaints_of
from podium.config.sections import Sections
from podium.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AddedTables:
    """What a file says to other packages."""

    tables: dict[str, BaseModel] = field(default_factory=dict)
    """The tables that fit their models, by name."""
    complaints: list[Complaint] = field(default_factory=list)
    """What is wrong with the others."""
    names: set[str] = field(default_factory=set)
    """All tables that belong to other packages; the rest of the file is core's to check."""


def read_added_tables(data: Mapping[str, object]) -> AddedTables:
    """Check the tables of other packages; imports only the packages whose tables are in the file.

    Raises:
        ConfigError: two packages announce one table, or a package announces something else than a model.
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
                raise ConfigError(f"{told} gives no pydantic model")
            try:
                added.tables[name] = model.model_validate(data[name])
            except ValidationError as error:
                added.complaints.extend(complaints_of(error, model, (name,)))
        elif absent := absent_table(name):
            added.names.add(name)
            added.complaints.append(((name,), absent))
    return added
