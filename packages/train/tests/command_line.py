"""The command line in this process, because a new one takes seconds to import what it needs."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from podium_train.commands import main


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def command(*words: str, folder: Path) -> Done:
    out, err, code = StringIO(), StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["podium-train", *words])
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
