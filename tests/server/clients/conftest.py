"""A server for programs that check APIs: its workers can plan, call tools, and answer in a schema."""

import shutil
from collections.abc import Iterator
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
def npm_programs() -> Path:
    """Return the folder with the programs of the npm packages that `make test-clients` installs."""
    programs = Path(__file__).parents[3] / ".clients" / "node_modules" / ".bin"
    if shutil.which("node") is None or not programs.exists():
        pytest.skip("run `make test-clients`, which needs Node.js 20 or later: the clients are not installed")
    return programs
