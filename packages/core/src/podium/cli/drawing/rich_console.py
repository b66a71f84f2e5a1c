"""Consoles and Markdown of rich, with the settings of the command line."""

from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown


def console(*, stderr: bool = False, file: TextIO | None = None, width: int | None = None) -> Console:
    """Return a console on stdout, stderr or a file that writes text verbatim, without markup."""
    return Console(stderr=stderr, file=file, width=width, highlight=False, markup=False)


def markdown(text: str) -> Markdown:
    """Draw a text as Markdown, with the URLs of its links."""
    return Markdown(text, hyperlinks=False)


def width(text: str) -> int:
    """Return the width of a text in a terminal, in columns."""
    return cell_len(text)
