"""`podium plan`: plan a question without running the plan, or read plan text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Any, NamedTuple

import anyio
import typer
from rich.cells import cell_len

from podium.cli.arguments import (
    Args,
    AsJson,
    ConfigPath,
    Labels,
    Question,
    command,
    exclude,
    names,
    pairs,
    read_asked,
    read_file,
    read_stdin,
    tell_unfinished,
)
from podium.cli.drawing import plan_table
from podium.cli.screen import BAD_INPUT, Screen, reporting
from podium.config import Config, find_config, load_config
from podium.config.plans import plan_to_toml
from podium.config.source import why_unwritable
from podium.errors import ConfigError, PlanError, PlanInvalid, PlanSyntaxError
from podium.plan_text.parser import MAX_CHARS, parse_plan
from podium.plan_text.saved import REQUIRED, Parameter, SavedPlan
from podium.secrets import scrub
from podium.types.forecast import explain_forecast
from podium.types.plan import Plan
from podium.types.references import called, names_in

_EXCERPT = 64
"""Longest excerpt of the line with the error, in characters."""
_MAX_STEPS = 32
"""Maximum number of steps of a parsed plan text."""


def plan(  # noqa: PLR0913 - one parameter for each argument and option
    question: Question = None,
    *,
    labels: Labels = "",
    config: ConfigPath = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A new file for the plan, for `podium run --plan`."),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Save the plan as plans/NAME.toml; {{x}} in the question are parameters."
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="With --save: the default of a parameter, and its type. Repeatable."
        ),
    ] = None,
    named: Annotated[
        str | None,
        typer.Option(
            "--plan", metavar="NAME|FILE", help="Show a plan of [plans], or of a file, as it would run."
        ),
    ] = None,
    arg: Args = None,
    parse: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Only read this plan text; - for stdin. Needs --workers."),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N|NAMES", help="With --parse: the number of workers, or their names, as in gpt,claude."
        ),
    ] = None,
) -> None:
    """Show the plan for a question, and run nothing.

    The plan is a table and a flowchart. `podium run --plan FILE` runs a plan that was saved with --out or
    --json, without another call of the planner. With --save, names in the question, as in {{repo}}, become
    parameters, and `podium run --plan NAME --arg repo=VALUE` runs the plan.

    With --plan, a saved plan is shown with its arguments, and what it keeps of an unfinished run; no model is
    called.

    With --parse, the steps of a plan text are shown, or the position and cause of the error. No model is
    called, and no config is needed.
    """
    with reporting() as screen:
        if parse is not None:
            others = {"a question": question, "--labels": labels, "--config": config, "--out": out}
            exclude("--parse", others | {"--save": save, "--plan": named})
            if workers is None:
                raise ConfigError("--parse needs --workers: their number, or their names, as in gpt,claude")
            _parse(screen, parse, _read_roster(workers), as_json=as_json)
        elif workers is not None:
            raise ConfigError("--workers needs --parse FILE: leave it out")
        else:
            if named is not None:
                exclude("--plan", {"--out": out, "--save": save, "--param": bool(param)})
            saving, called_with = Saving(save, param or []), _Called(named, arg or [], question)
            _plan(screen, config, called_with, labels, out, saving, as_json=as_json)


class _Called(NamedTuple):
    """What a command plans or shows."""

    plan: str | None
    """The name or the file of a plan; `None` for a question."""
    args: Sequence[str]
    question: str | None

    def __str__(self) -> str:
        return join([self.plan or "", *(word for each in self.args for word in ("--arg", each))])


@dataclass(frozen=True, slots=True)
class Saving:
    """How a plan is saved with a name."""

    name: str | None
    params: Sequence[str]

    def parameters(self, question: str) -> dict[str, Parameter]:
        """Return the parameters of a question; the default of one, as in `repo=.`, gives its type."""
        given, named = pairs("--param", self.params), names_in(question)
        if unused := [name for name in given if self.name is None or name not in named]:
            why = f"names nothing: write {{{{{unused[0]}}}}} in the question"
            raise ConfigError(f"--param {unused[0]} {'needs --save' if self.name is None else why}")
        found = {name: Parameter() for name in named} if self.name is not None else {}
        if self.name is not None:
            step = {"worker": "any", "subtask": "Any.", "access": []}
            SavedPlan(name=self.name, parameters=found, steps=(step,))  # before the planner is paid
        for name, text in given.items():
            value = _data(text)
            found[name] = Parameter(_type_of(value), value)
        return found

    def save(
        self, plan: Plan, question: str, parameters: Mapping[str, Parameter], workers: Sequence[str]
    ) -> SavedPlan:
        """Return the saved plan."""
        rows = plan.to_json(workers)["steps"]
        said = question.strip().splitlines()[0][:200]
        return SavedPlan(name=self.name or "", description=said, parameters=parameters, steps=tuple(rows))


def _data(text: str) -> Any:
    """Return the value of JSON text; other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _type_of(value: Any) -> Any:
    if isinstance(value, list):
        return [_type_of(value[0])] if value else {"type": "array"}
    kinds = {bool: "boolean", int: "integer", float: "number", dict: {"type": "object"}}
    return kinds.get(type(value), "string")


def _plan(  # noqa: PLR0913 - what the command was given
    screen: Screen,
    config: Path | None,
    given: _Called,
    labels: str,
    out: Path | None,
    saving: Saving,
    *,
    as_json: bool,
) -> None:
    """Write the plan to stdout, or also to a file; its reason and its forecast to stderr."""
    loaded = load_config(find_config(config))
    file = loaded.path.parent / "plans" / f"{saving.name}.toml" if saving.name is not None else None
    for each in (out, file):
        if each is not None and each.exists():
            raise ConfigError(f"{each} already exists: name another file")
    conductor = loaded.conductor(journaled=False)
    asked = read_asked(conductor, *given)
    if loaded.is_hosted:
        told = "a hosted conductor does not show its plans: use a config with a planner and workers"
        raise ConfigError(told)
    screen.warn(conductor.warnings)
    parameters = saving.parameters(asked) if isinstance(asked, str) else {}
    texts = {name: str(each.default) for name, each in parameters.items()}
    made = anyio.run(partial(conductor.plan, asked, labels=names(labels), context=texts))
    workers, actions = conductor.pool.names, conductor.actions_of(made)
    if as_json:
        screen.result_json(made.to_json(workers))
    else:
        screen.draw(plan_table(made, workers, screen.shown, actions), "")
        screen.result(made.to_mermaid(workers, actions))
    for told in filter(None, (made.name and called(made.name, made.args), made.why)):
        screen.note(told)
    screen.note(explain_forecast(conductor.forecast(made)))
    if out is not None:
        _save(scrub(json.dumps(made.to_json(workers), indent=2)) + "\n", out)
    if file is not None:
        _tell_saved(screen, loaded, saving.save(made, str(asked), parameters, workers), file, config)
        return
    if given.plan is not None:
        tell_unfinished(screen, loaded.journal(), conductor, given.plan, config)
    run = command(f"run --plan {given if given.plan else quote(str(out or 'plan.json'))}", config)
    first = "" if given.plan or out is not None else "save the plan with `-o plan.json`, then "
    screen.note(f"podium: {first}run it with `{run}`")


def _tell_saved(screen: Screen, loaded: Config, saved: SavedPlan, file: Path, config: Path | None) -> None:
    """Save a plan with a name, and say how it is used."""
    file.parent.mkdir(exist_ok=True)
    _save(scrub(plan_to_toml(saved)), file)
    used = {name for row in saved.steps for name in names_in(json.dumps(row))}
    for name in saved.parameters.keys() - used:
        screen.note(f"podium: no step uses {{{{{name}}}}}: write it into a subtask of {file}")
    args = "".join(f" --arg {name}=…" for name, each in saved.parameters.items() if each.default is REQUIRED)
    line = f'{saved.name} = "plans/{file.name}"'
    screen.note(f"podium: saved in {file}: add the line `{line}` to [plans] of {loaded.path}")
    screen.note(f"podium: run it with `{command(f'run --plan {quote(saved.name)}{args}', config)}`")


def _save(text: str, path: Path) -> None:
    """Write a new file, or raise `ConfigError`."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error


def _parse(screen: Screen, source: str, roster: int | list[str], *, as_json: bool) -> None:
    """Show the plan in `source`, or its error."""
    most = 4 * MAX_CHARS  # UTF-8 has at most 4 bytes per character
    text = read_stdin() if source == "-" else read_file(Path(source), most, "the plan text ")
    try:
        read = parse_plan(text, workers=roster, max_steps=_MAX_STEPS)
    except PlanError as error:
        position = error.position if isinstance(error, PlanSyntaxError | PlanInvalid) else None
        if as_json:
            problem = {"code": error.code, "message": str(error), "position": position}
            screen.result_json({"ok": False, "error": problem})
        else:
            screen.note(f"podium: {error.code}: {error}")
            if position is not None:
                screen.note(_pointed(text, position))
        raise typer.Exit(BAD_INPUT) from error
    if as_json:
        screen.result_json({"ok": True, "plan": {"steps": read.to_json()["steps"]}})
    else:
        screen.draw(plan_table(read, None if isinstance(roster, int) else roster, screen.shown))


def _read_roster(text: str) -> int | list[str]:
    """Parse the number of workers, or their names, or raise `ConfigError`."""
    text = text.strip()
    if text.isdecimal() and text.isascii() and int(text[:9]) > 0:
        return int(text[:9])
    found = [name.strip() for name in text.split(",")]
    if not all(found) or len(set(found)) < len(found) or text.lstrip("-").isdecimal():
        raise ConfigError(f"--workers {text!r}: give a number above 0, or distinct names, as in 'gpt,claude'")
    return found


def _pointed(text: str, position: int) -> str:
    """Return the line of `text` at `position`, and under it a caret."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    number, column = text.count("\n", 0, position) + 1, position - start
    cut = max(0, column - _EXCERPT // 2)
    before = line[cut:column].replace("\t", " ")
    excerpt = before + line[column : cut + _EXCERPT].replace("\t", " ")
    return f"{number:>6} | {excerpt}\n       | {' ' * cell_len(before)}^ column {column + 1}"
