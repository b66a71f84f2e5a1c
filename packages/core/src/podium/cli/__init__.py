"""The command line: `podium run`, `plan`, `parse`, `check`, `init`, `demo`."""

import io
import sys

from podium.cli.app import app

__all__ = ["main"]


def main() -> None:
    """Run the command line on `sys.argv` and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A model may write what the terminal's encoding lacks; a paid answer is shown all the same.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="podium")
