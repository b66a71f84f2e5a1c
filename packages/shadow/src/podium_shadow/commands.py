"""`podium evals shadow`: compare candidates with the production system, and delete recorded pairs."""

import sys
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from time import time
from typing import Annotated, Any

import anyio
import typer

from podium.cli.arguments import AsJson, ConfigPath, age, span
from podium.cli.root import command_group
from podium.cli.screen import reporting
from podium.config import find_config, load_config
from podium.config.load import find_journal, find_shared_cache
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium_shadow.comparison import report as compare
from podium_shadow.judge import Judge, Scorer
from podium_shadow.report_table import draw_report
from podium_shadow.sql_pairs import SqlPairs

shadow = command_group("shadow")


@shadow.callback()
def about() -> None:
    """Compare candidates with the production system."""


@shadow.command()
def report(  # noqa: PLR0913 - one parameter for each argument and option
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name of the shadow; default all.")
    ] = None,
    *,
    since: Annotated[
        float | None,
        typer.Option(parser=span, metavar="SPAN", help="Only pairs of the last 12h, 30d, 8w."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of pairs; the latest are used.")] = 10_000,
    judge: Annotated[
        str | None,
        typer.Option(metavar="WORKER", help="A worker of the config that judges answers that differ."),
    ] = None,
    judge_calls: Annotated[int, typer.Option(min=1, help="Maximum number of calls of the judge.")] = 100,
    scorer: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Score each answer: a function of question and answer."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Compare a candidate's answers, latency, calls, tokens and cost with the primary's."""
    with reporting() as screen:
        reports = anyio.run(
            partial(
                compare,
                _pairs(config),
                shadow=name,
                since=0.0 if since is None else time() - since,
                limit=limit,
                judge=None if judge is None else _judge(config, judge, judge_calls),
                scorer=None if scorer is None else _scorer(scorer),
                confidence=confidence,
                seed=seed,
            )
        )
        if as_json:
            screen.result_json([asdict(each) for each in reports])
            return
        if not reports:
            of = f"shadow {name!r}" if name else "any shadow"
            screen.note(f"podium: there are no pairs of {of}")
        for each in reports:
            draw_report(screen, each)


@shadow.command()
def prune(
    *,
    older_than: Annotated[float, typer.Option(parser=age, metavar="AGE", help="Minimum age: 12h, 30d, 8w.")],
    config: ConfigPath = None,
) -> None:
    """Delete the pairs that are older than a time span."""
    with reporting() as screen:
        forgot = anyio.run(_pairs(config).prune, older_than)
        screen.note(f"podium: forgot {forgot} pair{'' if forgot == 1 else 's'}")


def _pairs(config: Path | None) -> SqlPairs:
    journal = find_journal(config)
    assert isinstance(journal, SqlJournal)  # the config creates only this class
    return SqlPairs.beside(journal)


def _judge(config: Path | None, name: str, calls: int) -> Judge:
    loaded = load_config(find_config(config))
    if name not in loaded.worker_names:
        told = ", ".join(loaded.worker_names) or "none"
        raise ConfigError(f"--judge {name!r} is not a worker of {loaded.path}: its workers are {told}")
    return Judge(loaded.worker(name), calls=calls, cache=find_shared_cache(config))


def _scorer(typed: str) -> Scorer:
    """Return the function `MODULE:FUNCTION`, searching the current folder first, like `python -m`.

    Raises:
        ConfigError: the function does not exist.
    """
    module, colon, name = typed.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"--scorer {typed!r}: write MODULE:FUNCTION, as in scoring:exactness")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"--scorer {typed!r} cannot be imported: {error}") from error
    finally:
        sys.path.remove(str(Path.cwd()))
    if not callable(found):
        raise ConfigError(f"--scorer {typed!r} is {type(found).__name__}: it must be a function")
    scorer: Scorer = found
    return scorer
