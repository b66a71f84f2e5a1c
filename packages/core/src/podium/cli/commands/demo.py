"""`podium demo`: answer a question without a model, key or network."""

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import anyio
import typer

from podium.cli.answer import problem_line, show_answer, status_line
from podium.cli.drawing.run_table import RunTable, View
from podium.cli.live import LiveState, follow, run_notes
from podium.cli.screen import NO_ANSWER, PARTIAL, Screen, reporting
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.planners.rule import RulePlanner
from podium.types.events import Event
from podium.types.result import Result
from podium.workers.calculator import Calculator
from podium.workers.documents import Documents
from podium.workers.simple import Gather

_PAGES = Path(__file__).parents[1] / "demo_pages"
_QUESTION = "What is 17.5% of 2,340, and what does an access list decide?"


def demo(
    question: Annotated[str, typer.Argument(help="The question.")] = _QUESTION,
    *,
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder of text and Markdown files to search. Default: a page about Podium."),
    ] = None,
) -> None:
    """Answer a question without a model, key or network."""
    with reporting() as screen:
        _demonstrate(screen, question, folder or _PAGES)


def _demonstrate(screen: Screen, question: str, folder: Path) -> None:
    """Answer `question` by rules, arithmetic and a search of `folder`, and show the steps.

    Raises:
        ConfigError: the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigError(f"the folder {str(folder)!r} does not exist: name one with --folder")
    conductor = Conductor(RulePlanner(), [Calculator(), Documents(folder, top=2), Gather()])
    screen.result(f"Question: {question}\n")

    async def job(listen: Callable[[Event], None]) -> Result:
        return await conductor.run(question, on_event=listen)

    state = LiveState()
    if screen.interactive:
        result = anyio.run(View(screen, state).watch, job)
    else:
        result = anyio.run(follow, job, state)
        table = RunTable(screen.shown, None, screen.console().width).draw(state)
        screen.draw(table, *(note.text for note in run_notes(state, screen.shown)))
    for layer in result.plans[0].layers if result.plans else ():
        if len(layer) > 1:
            steps = " and ".join(map(str, layer))
            screen.result(f"Steps {steps} ran in parallel, because none depends on another.")
    screen.result("")
    show_answer(screen, result)
    screen.result("\n".join(["", status_line(result), *filter(None, [problem_line(result)])]))
    screen.result("\nTo run it with real models:")
    command = _own_command()
    screen.result("export the key of a provider, then")
    screen.result(f"  {command} init --preset providers")
    screen.result("or, for a server of your own,")
    screen.result(f"  {command} init --preset server --base-url http://localhost:8000/v1\nand then")
    screen.result(f"  {command} run {shlex.quote(question)}")
    if result.status != "ok":
        raise typer.Exit(PARTIAL if result.status == "partial" else NO_ANSWER)


def _own_command() -> str:
    """Return the shell command that starts this program from the current folder."""
    if shutil.which("podium") is not None:
        return "podium"
    script = Path(sys.argv[0])
    if script.name == "__main__.py":
        return f"{_from_here(Path(sys.executable))} -m podium"
    return _from_here(script)


def _from_here(path: Path) -> str:
    """Quote `path` for a shell, relative to the current folder if it is inside."""
    path, here = path.absolute(), Path.cwd()
    if not path.is_relative_to(here):
        return shlex.quote(str(path))
    inside = path.relative_to(here)
    return shlex.quote(str(inside) if len(inside.parts) > 1 else f"./{inside}")
