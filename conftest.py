"""Runs every code block of the READMEs and of `docs/` as a test.

A loopback server replaces the models; `podium.toml` files that a block creates use its URL.
"""

import gc
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import ChatServer
from servers.docs_environment import docs_environment
from servers.docs_model import answer
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from typer.testing import CliRunner
from xdist.scheduler import LoadScopeScheduling

from podium.cli.policy import FlowFile
from podium.cli.root import app
from podium.config import load_config
from podium.config.load import read_table

# Collection imports every framework. Garbage collections would double its time, and find nothing.
gc.disable()
# Tests run in several processes, and threads of numerical libraries that compete for the cores take longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parent
APART = {
    "openai_agents_podium": ("packages/openai-agents", "docs/openai-agents.md"),
    "inspect_podium": ("packages/inspect", "docs/inspect.md"),
    "ray": ("tests/server/ray", "docs/server-deploy.md"),
    "podium_train": ("packages/train", "docs/training.md"),
}
"""Files whose tests need an environment of their own, by a module that only this environment has."""
NOT_HERE = tuple(path for module, paths in APART.items() if find_spec(module) is None for path in paths)


def run_shell(example: Example) -> None:
    """Run a block of shell commands, one by one."""
    for command in example.parsed.splitlines():
        words = shlex.split(command, comments=True)
        if words[0] == "podium":
            run_podium(words[1:])
        else:
            shell = ["/bin/bash", "-c", command]
            done = subprocess.run(shell, capture_output=True, text=True, timeout=50, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        config = Path("podium.toml")
        if config.exists():
            text = re.sub(r'base_url = "[^"]*"', f'base_url = "{os.environ["LLM_URL"]}"', config.read_text())
            config.write_text(text)


def run_podium(words: list[str]) -> None:
    """Run a `podium` command in this process, because a new process takes a second to start."""
    *words, target = words if words[-2:-1] == [">"] else [*words, ">", os.devnull]
    result = CliRunner().invoke(app, words[:-1])
    assert result.exit_code == 0, f"podium {shlex.join(words[:-1])}\n{result.output}"
    Path(target).write_text(result.stdout)


def check_make(example: Example) -> None:
    """Check that the make targets of a block exist."""
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", example.parsed, re.MULTILINE):
        assert f"\n{target}:" in makefile


def check_json(example: Example) -> None:
    """Check that a block is JSON."""
    json.loads(example.parsed)


def check_toml(example: Example) -> None:
    """Check that a block is a valid configuration."""
    Path("block.toml").write_text(example.parsed)
    if example.parsed.startswith("[[flow]]"):
        read_table(Path("block.toml"), FlowFile)
    else:
        load_config(Path("block.toml"))


def ignore(example: Example) -> None:
    """Ignore a block that is not code; the tests of the parser read plan text."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow warnings of frameworks."""
    crewai = (
        "ignore:Cannot set an attribute on 'crewai:ImportWarning",
        r"ignore::DeprecationWarning:crewai\.",
    )
    autogen = "ignore:Resolved model mismatch:UserWarning"
    compiled = ("ignore::SyntaxWarning",)  # of a library of reasoning-gym, when Python compiles it first
    inspect = (  # what Inspect leaves to the garbage collector
        "ignore::pytest.PytestUnraisableExceptionWarning",
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning:inspect_ai",
    )
    ray = ("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
    theirs = {
        "server-deploy.md": ray,
        "inspect.md": inspect,
        "evidence.md": compiled,
        "crewai.md": crewai,
        "README.md": (*crewai, autogen),
    }
    for item in items:
        if item.path.is_relative_to(ROOT / "packages" / "inspect"):
            item.add_marker(pytest.mark.filterwarnings(*inspect))
        elif item.path.name in theirs:
            item.add_marker(pytest.mark.filterwarnings(*theirs[item.path.name]))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore the files of packages that have their own environments."""
    return True if str(collection_path.relative_to(ROOT)).startswith(NOT_HERE) else None


class Scheduling(LoadScopeScheduling):
    """Gives all blocks of a page, which share names and files, or all cases of a test to one process."""

    def _split_scope(self, nodeid: str) -> str:
        page = nodeid.partition("::")[0]
        return page if page.endswith(".md") else nodeid.partition("[")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Return the scheduling for `-n`."""
    return Scheduling(config, log)


def pytest_collection_finish() -> None:
    """Exclude all imported objects from later garbage collections."""
    gc.enable()
    gc.collect()  # Python makes full collections rare only after a first one
    gc.freeze()


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give the blocks of a page their own server, keys and folder."""
    with ChatServer(answer).in_thread() as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for name, value in docs_environment(server.url, tmp_path_factory.mktemp("home")).items():
            patch.setenv(name, value)
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        yield


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(),
        CodeBlockParser("bash", run_shell),
        CodeBlockParser("console", check_make),
        CodeBlockParser("json", check_json),
        CodeBlockParser("toml", check_toml),
        CodeBlockParser("text", ignore),
    ],
    patterns=["README.md", "docs/*.md", "packages/*/README.md"],
    fixtures=["documented"],
).pytest()
