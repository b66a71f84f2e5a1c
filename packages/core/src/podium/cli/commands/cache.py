"""`podium cache`: delete answers that are kept for reuse."""

import anyio
import typer

from podium.cli.arguments import ConfigPath
from podium.cli.screen import EXIT_CODES, counted, reporting
from podium.config import find_shared_cache

cache = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXIT_CODES)


@cache.callback()
def about() -> None:
    """Delete cached answers."""


@cache.command(epilog=EXIT_CODES)
def clear(*, config: ConfigPath = None) -> None:
    """Delete all answers in the cache of the journal (`cache = "shared"`)."""
    with reporting() as screen:
        answers = anyio.run(find_shared_cache(config).prune, 0.0)
        screen.note(f"podium: deleted {counted(answers, 'cached answer')}")
