"""Builds the wheels, installs each into new environments, and runs the examples of its pages, with times.

    uv run python -m scripts.check_wheels [--python 3.11] [--only crewai-podium]

Wheels are built from source distributions. Dependencies come from the registry in their newest versions, as
for a user. The examples are all Python blocks of the package's README, each of which is a program, and the
first block of each page of the documentation. A loopback server replaces the models.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.servers.docs_environment import docs_environment

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
SECONDS = 900.0
"""Timeout of one command, such as an installation, in seconds."""
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MOST_OUTPUT = 3000


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution, and the examples that test its wheel."""

    name: str
    folder: str
    """Its folder in `packages/`."""
    extras: str = ""
    also: tuple[str, ...] = ()
    """Other packages that its examples import."""
    pages: tuple[str, ...] = ()
    """Pages of the documentation; the first example of each is run."""
    command: str = ""
    """A command line of `podium` that it provides."""

    def examples(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the code of each example."""
        module = "podium" if self.name == "podium-conductor" else self.name.replace("-", "_")
        yield "version", _VERSION.format(module=module, name=self.name)
        readme = f"packages/{self.folder}/README.md"
        for number, block in enumerate(_python_blocks(readme), 1):
            yield f"{readme}, example {number}", block
        for page in self.pages:
            yield f"{page}, example 1", _python_blocks(page)[0]


_VERSION = """
import sys
from importlib.metadata import version
import {module}
assert {module}.__file__.startswith(sys.prefix), {module}.__file__
assert {module}.__version__ == version("{name}"), {module}.__version__
"""

DISTRIBUTIONS = (
    Distribution(
        "podium-conductor",
        "core",
        pages=("docs/index.md", "docs/policy.md", "docs/runs.md"),
        command="demo",
    ),
    Distribution(
        "podium-server",
        "server",
        also=("openai",),
        pages=("docs/server-api.md",),
        command="serve --help",
    ),
    Distribution(
        "podium-shadow",
        "shadow",
        also=("langchain-podium[shadow]",),
        pages=("docs/shadow.md",),
        command="evals shadow --help",
    ),
    Distribution("podium-evals", "evals", command="evals record --help"),
    Distribution(
        "langchain-podium",
        "langchain",
        "[langgraph]",
        also=("langchain-openai",),
        pages=("README.md", "docs/langchain.md", "docs/langgraph.md"),
    ),
    Distribution(
        "llama-index-podium",
        "llamaindex",
        also=("llama-index-llms-openai-like",),
        pages=("docs/llamaindex.md",),
    ),
    Distribution("crewai-podium", "crewai", pages=("docs/crewai.md",)),
    Distribution("autogen-podium", "autogen", "[agent-framework]", pages=("docs/autogen.md",)),
    Distribution("openai-agents-podium", "openai-agents", pages=("docs/openai-agents.md",)),
    Distribution("inspect-podium", "inspect", pages=("docs/inspect.md",)),
    Distribution("podium-train", "train"),
)


def main() -> int:
    """Run the command; return 0 if all examples succeeded in all environments."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.check_wheels", description="Checks the wheels in new environments."
    )
    names = [each.name for each in DISTRIBUTIONS]
    parser.add_argument(
        "--python", action="append", metavar="VERSION", help="version or path; default: 3.11 to 3.13"
    )
    parser.add_argument("--only", action="append", choices=names, help="default: all")
    asked = parser.parse_args()
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        parser.error("uv is not on the PATH")
    problems: list[str] = []
    with TemporaryDirectory(prefix="podium-wheels-") as folder, _model_server() as url:
        wheels = Path(folder)
        build = [uv, "build", "--quiet", "--out-dir", str(wheels)]
        _run([*build, "--all-packages"], cwd=ROOT)
        for apart in (
            "packages/openai-agents",
            "packages/inspect",
            "packages/train",
        ):  # they are not in the workspace
            _run([*build, apart], cwd=ROOT)
        for python in asked.python or PYTHONS:
            for each in DISTRIBUTIONS:
                if asked.only is None or each.name in asked.only:
                    began = time.monotonic()
                    for name, problem in _check(each, uv, python, wheels, url):
                        took = f"{time.monotonic() - began:.1f} s"
                        print(f"{python} {each.name}: {name}: {problem or 'ok'}, {took}", flush=True)
                        problems.append(problem)
                        began = time.monotonic()
    failed = sum(map(bool, problems))
    print(f"{len(problems) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _check(each: Distribution, uv: str, python: str, wheels: Path, url: str) -> Iterator[tuple[str, str]]:
    """Install a distribution into a new environment; yield each check with its problem, or with `""`."""
    with TemporaryDirectory(prefix="podium-wheel-") as folder:
        place = Path(folder)
        home = place / "home"
        home.mkdir()
        scripts = place / "env" / "bin"
        env = {
            **docs_environment(url, home),
            "HOME": str(home),
            "PATH": f"{scripts}:{os.environ['PATH']}",
        }
        python_path, needs = str(scripts / "python"), [f"{each.name}{each.extras}", *each.also]
        install = [uv, "pip", "install", "--quiet", "--python", python_path, "--find-links", str(wheels)]
        problem = _problem([uv, "venv", "--quiet", "--python", python, str(place / "env")])
        problem = problem or _problem([*install, *needs])
        yield "install", problem
        if problem:
            return
        for name, code in each.examples():
            yield name, _problem([python_path, "-c", code], cwd=place, env=env)
        if each.command:
            yield each.command, _problem([str(scripts / "podium"), *each.command.split()], cwd=place, env=env)


@contextmanager
def _model_server() -> Iterator[str]:
    """Start the model server of the examples in its own process; yield its URL."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    with subprocess.Popen(
        [sys.executable, "-m", "servers.docs_model"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.communicate()


def _problem(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command; return `""`, or the reason of its failure."""
    try:
        _run(command, cwd=cwd, env=env)
    except subprocess.CalledProcessError as error:
        return f"exit status {error.returncode}\n{error.stderr[-_MOST_OUTPUT:]}"
    except subprocess.TimeoutExpired:
        return f"took more than {SECONDS:g} s"
    return ""


def _run(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    subprocess.run(  # noqa: S603  (our own commands)
        command, cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, timeout=SECONDS,
    )  # fmt: skip


def _python_blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
