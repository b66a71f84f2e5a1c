"""Runs every code block of the READMEs and of `docs/` as a test.

Models are a loopback server's; `podium.toml` files that a block makes are pointed at it.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import ChatServer
from servers.docs_environment import docs_environment
from servers.docs_model import answer
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from podium.config import load_config

ROOT = Path(__file__).parent


def run_shell(example: Example) -> None:
    """Run a block of shell commands, one by one."""
    for command in example.parsed.splitlines():
        shell = ["/bin/bash", "-c", command]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        config = Path("podium.toml")
        if config.exists():
            text = re.sub(r'base_url = "[^"]*"', f'base_url = "{os.environ["LLM_URL"]}"', config.read_text())
            config.write_text(text)


def check_make(example: Example) -> None:
    """See that the targets a block calls are there."""
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", example.parsed, re.MULTILINE):
        assert f"\n{target}:" in makefile


def check_json(example: Example) -> None:
    """See that a block is JSON."""
    json.loads(example.parsed)


def check_toml(example: Example) -> None:
    """See that a block is a configuration that loads."""
    Path("block.toml").write_text(example.parsed)
    load_config(Path("block.toml"))


def ignore(example: Example) -> None:
    """Leave a block that is no code: plan text is read in the tests of the parser."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let CrewAI warn of itself, on being imported and used, and AutoGen of the scripted model's name."""
    crewai = (
        "ignore:Cannot set an attribute on 'crewai:ImportWarning",
        r"ignore::DeprecationWarning:crewai\.",
    )
    autogen = "ignore:Resolved model mismatch:UserWarning"
    theirs = {"crewai.md": crewai, "README.md": (*crewai, autogen)}
    for item in items:
        if item.path.name in theirs:
            item.add_marker(pytest.mark.filterwarnings(*theirs[item.path.name]))


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give a page's blocks a server, keys and a folder of their own."""
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
