"""The files of saved plans."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podium.config.section import Section
from podium.plan_text.saved import REQUIRED, SavedPlan


class ParameterSection(Section):
    """`[parameters.NAME]` of a saved plan."""

    type: Any = "string"
    """A JSON schema, or its short form: `"string"`, `["string"]`, `"fast|thorough"`."""
    default: Any = REQUIRED
    """The value without an argument; without a default, the argument is required."""
    description: str = ""
    """What the value is, for planners and people."""


class PlanFile(Section):
    """The file of a saved plan."""

    name: str
    """The name of the plan, as in `[plans]` of the config."""
    description: str = ""
    """What the plan does, for planners and people."""
    when_to_use: str = ""
    """When a planner should use the plan."""
    parameters: Mapping[str, ParameterSection] = {}
    """The parameters, to which the steps refer as `{{name}}`."""
    steps: tuple[dict[str, Any], ...]
    """The steps, with the keys of plan text in JSON; `worker` is a name."""


def plan_to_toml(plan: SavedPlan) -> str:
    """Return the text of the file of a saved plan."""
    facts = {"name": plan.name, "description": plan.description, "when_to_use": plan.when_to_use}
    lines = [f"{key} = {_value(value)}" for key, value in facts.items() if value or key == "name"]
    for name, each in plan.parameters.items():
        said = {"type": each.short, "default": each.default, "description": each.description}
        lines += ["", f"[parameters.{name}]"]
        lines += [f"{key} = {_value(said[key])}" for key in said if said[key] not in (REQUIRED, "", None)]
    return "\n".join([*lines, *_tables(plan.steps, "steps")]) + "\n"


def _tables(rows: Sequence[Mapping[str, Any]], table: str) -> Iterator[str]:
    """Yield the lines of steps; the steps of a block are a table of its own."""
    for row in rows:
        yield from ("", f"[[{table}]]")
        yield from (f"{key} = {_value(value)}" for key, value in row.items() if key != "steps")
        yield from _tables(row.get("steps", ()), f"{table}.steps")


def _value(value: Any) -> str:
    """Return JSON data as a value of TOML; a text of several lines is one, too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    lines = value.split("\n") if isinstance(value, str) else ()
    if len(lines) > 1 and "'''" not in value and all(line.isprintable() for line in lines):
        return f"'''\n{value}'''"
    return json.dumps(value).replace("\x7f", "\\u007f")
