"""Rich's consoles and Markdown, set up as the command line uses them."""

from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown


def console(*, stderr: bool = False, file: TextIO | None = None, width: int | None = None) -> Console:
    """Return a console on stdout, on stderr, or on a file, that takes text verbatim."""
    return Console(stderr=stderr, file=file, width=width, highlight=False, markup=False)


def markdown(text: str) -> Markdown:
    """Return a text drawn as Markdown; links are written out."""
    return Markdown(text, hyperlinks=False)


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return cell_len(text)
