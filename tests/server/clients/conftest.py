"""A server for programs that check APIs: its workers can plan, call tools, and answer in a schema."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from server.scene import CONFIG
from servers.capable import capable
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving

MODELS = """
[models.team]

[models.one]
worker = "one"
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a conducted team, and a worker as itself."""
    with ChatServer(capable).in_thread() as upstream:
        seeing = CONFIG.replace("description =", 'parts = ["image_url"]\ndescription =')
        config = seeing.format(url=upstream.url, models=MODELS, server="")
        with serving(config, tmp_path_factory.mktemp("team")) as served:
            yield served


@pytest.fixture(scope="session")
def npm_programs() -> Path:
    """Return the folder with the programs of the npm packages that `make test-clients` installs."""
    programs = Path(__file__).parents[3] / ".clients" / "node_modules" / ".bin"
    if shutil.which("node") is None or not programs.exists():
        pytest.skip("run `make test-clients`, which needs Node.js 20 or later: the clients are not installed")
    return programs


def run(script: str, folder: Path, programs: Path, **more: str) -> str:
    """Run commands in a new repository, with a folder as the home; return the output."""
    (folder / "tmp").mkdir()
    known = {"HOME": str(folder), "PATH": f"{programs}:{os.environ['PATH']}", **more}
    known["TMPDIR"] = str(folder / "tmp")  # Codex needs a home elsewhere to call its sandbox by bubblewrap
    known["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    repository = folder / "repository"
    repository.mkdir()
    done = subprocess.run(
        ["/bin/bash", "-ec", f"git init --quiet\n{script}"],
        cwd=repository,
        env=known,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


_PAGE = Path(__file__).parents[3] / "docs" / "server.md"


def blocks(heading: str) -> list[str]:
    """Return the blocks of text under a heading of the page."""
    section = _PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```text\n(.*?)```", section, re.DOTALL)
