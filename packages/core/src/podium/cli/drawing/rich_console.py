"""Rich's consoles and Markdown, set up as the command line uses them."""

from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown


def console(*, stderr: bool = False) -> Console:
    """Return a console on stdout, or on stderr, that takes text verbatim."""
    return Console(stderr=stderr, highlight=False, markup=False)


def markdown(text: str) -> Markdown:
    """Return a text drawn as Markdown; links are written out."""
    return Markdown(text, hyperlinks=False)


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return cell_len(text)
