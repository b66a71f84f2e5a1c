"""A server for programs that check APIs: its workers can plan, call tools, and answer in a schema."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server.chat.conftest import CONFIG
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
        config = CONFIG.format(url=upstream.url, models=MODELS, server="")
        with serving(config, tmp_path_factory.mktemp("team")) as served:
            yield served


@pytest.fixture(scope="session")
def npm_program() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Return a function that runs a program of the npm packages that `make test-clients` installs."""
    programs = Path(__file__).parents[3] / ".clients" / "node_modules" / ".bin"

    def run(name: str, *arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
        if shutil.which("node") is None or not (programs / name).exists():
            pytest.skip(f"{name} is not installed: run `make test-clients`, which needs Node.js 20 or later")
        command = [str(programs / name), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)  # type: ignore[call-overload,no-any-return]

    return run
