"""The container file: its steps are run in a folder, because tests have no container engine."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from server.scene import process

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "Containerfile"
DEMO = '[workers.calculator]\ntype = "calculator"\n[planner]\ntype = "rule"\n'


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the file, each with its arguments."""
    text = re.sub(r"\\\n\s*", " ", FILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_pinned_and_has_no_root() -> None:
    """Each base image and each installed tool has a version; the user and the health check are set."""
    found = instructions()
    bases = [rest for name, rest in found if name == "FROM"]
    assert all(re.match(r"\S+:\d+\.\d+\.\d+-", base) for base in bases)
    assert re.search(r"uv==\d+\.\d+\.\d+", FILE.read_text())
    last = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    own = dict(found[last:])
    assert own["USER"] == "10001"
    assert own["STOPSIGNAL"] == "SIGTERM"
    assert "/readyz" in own["HEALTHCHECK"]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_steps_build_a_server(tmp_path: Path) -> None:
    """The packages that the steps install serve with keys, and the health check succeeds."""
    uv = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    source, target = tmp_path / "source", tmp_path / "podium"
    source.mkdir()
    for name in ("pyproject.toml", "uv.lock", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "packages", source / "packages", ignore=shutil.ignore_patterns("__pycache__", ".venv")
    )
    env = {**os.environ, "PATH": f"{Path(uv).parent}:{os.environ['PATH']}"}
    (steps,) = [rest for name, rest in instructions() if name == "RUN" and "uv export" in rest]
    run(["bash", "-ec", steps.replace("/opt/podium", str(target))], source, env)
    work = tmp_path / "work"
    work.mkdir()
    (work / "podium.toml").write_text(DEMO)
    places = {"PODIUM_CONFIG": str(work / "podium.toml"), "XDG_STATE_HOME": str(work), "UV": uv}
    podium = str(target / "bin" / "podium")
    run([podium, "keys", "create", "alice"], work, {**env, **places})
    with process(work, "--host", "0.0.0.0", env=places, command=podium) as running:  # noqa: S104 - as in the image
        port = running.url.rpartition(":")[2].removesuffix("/v1")
        (check,) = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
        _, script, code = json.loads(check.partition("CMD ")[2])
        run([str(target / "bin" / "python"), script, code.replace(":8000/", f":{port}/")], work, env)
        for module in ("mcp", "a2a", "asyncpg"):
            run([str(target / "bin" / "python"), "-c", f"import {module}"], work, env)


def run(command: list[str], folder: Path, env: Mapping[str, str]) -> None:
    """Run a command, and show its output if it fails."""
    done = subprocess.run(command, cwd=folder, env=dict(env), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
