"""The gateways that are compared: Podium, LiteLLM's proxy, and the smallest gateway in Python."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway import bare
from benchmarks.gateway.processes import Server, started

CORE = 0
"""The core of a gateway; the model and the client share the other ones."""
LITELLM = "litellm[proxy]==1.106.2"
_ROOT = Path(__file__).parents[2]
_LITELLM_KEY = "sk-benchmark"
_PODIUM = """
[endpoints.here]
base_url = "{url}"

[workers.fast]
endpoint = "here"
model = "fast"
price = {{ input = 0.1, output = 0.4 }}

[workers.slow]
endpoint = "here"
model = "slow"
price = {{ input = 0.1, output = 0.4 }}

[planner]
type = "rule"

[journal]
path = "runs.db"

[server]
requests = 4096

[models.fast]
worker = "fast"

[models.slow]
worker = "slow"
"""
_LITELLM = """
model_list:
  - model_name: fast
    litellm_params: {{model: openai/fast, api_base: "{url}", api_key: none}}
  - model_name: slow
    litellm_params: {{model: openai/slow, api_base: "{url}", api_key: none}}
general_settings:
  master_key: {key}
"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway."""

    name: str
    server: Server
    key: str


Start = Callable[[str, Path], AbstractContextManager[Gateway]]
"""Runs a gateway for the model with a URL, with a folder for its files."""


@contextmanager
def podium(url: str, folder: Path) -> Iterator[Gateway]:
    """Run `podium serve` with a key that has a budget and rate limits; runs are recorded in SQLite."""
    config = folder / "podium.toml"
    config.write_text(_PODIUM.format(url=url), encoding="utf-8")
    program = Path(sys.executable).parent / "podium"
    limits = ("--day", "1000", "--run", "0.01", "--rpm", "10000000", "--tpm", "100000000")
    create: list[str | Path] = [program, "keys", "create", "benchmark", *limits, "--config", config]
    key = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - own program
    serve = (program, "serve", "--port", "{port}", "--config", config)
    with started(serve, core=CORE, path="/v1") as server:
        yield Gateway("podium", server, key)


@contextmanager
def smallest(url: str, folder: Path) -> Iterator[Gateway]:
    """Run the smallest gateway."""
    del folder
    command = (sys.executable, "-m", bare.__name__, "{port}", url)
    with started(command, core=CORE, path="/v1", folder=_ROOT) as server:
        yield Gateway("smallest", server, bare.KEY)


@contextmanager
def litellm(url: str, folder: Path) -> Iterator[Gateway]:
    """Run LiteLLM's proxy with its master key: budgets and keys of its own need PostgreSQL and Prisma.

    Its environment is made in `.venv-litellm` when it is missing.
    """
    program = _ROOT / ".venv-litellm" / "bin" / "litellm"
    if not program.exists():
        _install(program.parents[1])
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM.format(url=url, key=_LITELLM_KEY), encoding="utf-8")
    command = (program, "--config", config, "--host", "127.0.0.1", "--port", "{port}", "--telemetry", "False")
    quiet = {"LITELLM_LOG": "ERROR", "DO_NOT_TRACK": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with started(command, core=CORE, path="/v1", env=quiet, folder=folder) as server:
        yield Gateway("litellm", server, _LITELLM_KEY)


def _install(folder: Path) -> None:
    uv = _ROOT / ".uv" / "bin" / "uv"
    program = str(uv) if uv.exists() else "uv"
    known = os.environ | {"UV_SYSTEM_CERTS": "1"}
    for command in (
        ("venv", "--quiet", str(folder)),
        ("pip", "install", "--quiet", "--python", str(folder), LITELLM),
    ):
        subprocess.run([program, *command], check=True, env=known)  # noqa: S603 - fixed words


GATEWAYS: dict[str, Start] = {"smallest": smallest, "podium": podium, "litellm": litellm}
