"""The container file, `compose.yaml`, the load balancer and the Kubernetes manifest, without an engine."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from openai import OpenAI
from server.scene import answers, config, free_port, process, until
from servers.chat_server import Call, ChatServer, Part, Pause, Reply, says
from typer.testing import Result

from podium.config import load_config
from podium_server.settings import ServerSection

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "Containerfile"
DEMO = '[workers.calculator]\ntype = "calculator"\n[planner]\ntype = "rule"\n'


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", FILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


IMAGE = dict(instructions())
KEYS = {"DATABASE_URL": "", "OPENAI_API_KEY": "sk-none"}
"""The variables that the operator sets, of the config in `deploy`."""
MANIFEST = (ROOT / "deploy/kubernetes.yaml").read_text()
KINDS: dict[str, dict[str, Any]] = {each["kind"]: each for each in yaml.safe_load_all(MANIFEST)}
TEMPLATE = KINDS["Deployment"]["spec"]["template"]
POD: dict[str, Any] = TEMPLATE["spec"]
(CONTAINER,) = POD["containers"]
CONFIG_MAP: str = KINDS["ConfigMap"]["data"]["podium.toml"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def test_the_manifest_fits_the_schema_and_has_the_config() -> None:
    for version in ("1.32", "1.35"):
        for each in KINDS.values():
            kubernetes_validate.validate(each, version, strict=True)
    text = (ROOT / "deploy/podium.toml").read_text()
    assert text == CONFIG_MAP
    assert all(f'"{name}"' in text for name in KEYS)


def test_the_config_passes_the_check(
    tmp_path: Path, podium: Callable[..., Result], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    (tmp_path / "podium.toml").write_text(CONFIG_MAP.replace("https://api.openai.com", "http://127.0.0.1:1"))
    for name, value in {**KEYS, "DATABASE_URL": postgres_url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PODIUM_CONFIG", str(tmp_path / "podium.toml"))
    arguments = [str(port) if each == "8000" else each for each in CONTAINER["args"]]
    assert podium("keys", "create", "alice").exit_code == 0
    done = podium(*arguments, "--check")
    wrong = [line for line in done.stdout.splitlines() if line.startswith("✗")]
    assert [line for line in wrong if "127.0.0.1:1" not in line] == [], done.output
    assert "✓ journal: works" in done.stdout
    assert f"✓ address: http://0.0.0.0:{port}" in done.stdout


def test_the_pod_is_the_image() -> None:
    assert CONTAINER["args"] == json.loads(IMAGE["CMD"])
    secure = POD["securityContext"]
    assert (secure["runAsUser"], secure["runAsNonRoot"]) == (int(IMAGE["USER"]), True)
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {each["mountPath"]: each for each in CONTAINER["volumeMounts"]}
    assert f"PODIUM_CONFIG={next(iter(mounts))}/podium.toml" in IMAGE["ENV"]
    volumes = {each["name"]: each for each in POD["volumes"]}
    assert volumes["config"]["configMap"]["name"] == KINDS["ConfigMap"]["metadata"]["name"]
    for path in (IMAGE["VOLUME"], "/tmp"):  # noqa: S108 - a path of the container
        assert "emptyDir" in volumes[mounts[path]["name"]]
    (port,) = CONTAINER["ports"]
    assert str(port["containerPort"]) == IMAGE["EXPOSE"]
    assert KINDS["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    labels = TEMPLATE["metadata"]["labels"]
    assert KINDS["Service"]["spec"]["selector"] == labels
    assert KINDS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_the_time_for_a_stop(tmp_path: Path) -> None:
    """It is longer than `drain_seconds`, with some seconds for the rest of the stop."""
    (tmp_path / "podium.toml").write_text(CONFIG_MAP)
    section = load_config(tmp_path / "podium.toml").table("server", ServerSection)
    assert section is not None
    before = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["terminationGracePeriodSeconds"] >= before + section.drain_seconds + 5
    for name in ("podium-1", "podium-2", "podium-3"):
        assert int(COMPOSE[name]["stop_grace_period"].removesuffix("s")) >= section.drain_seconds + 5


def test_the_compose_file() -> None:
    replicas = [COMPOSE[name] for name in COMPOSE if name.startswith("podium")]
    assert replicas == [replicas[0]] * 3
    assert replicas[0]["environment"].keys() >= KEYS.keys()
    check = replicas[0]["healthcheck"]["test"]
    assert check == ["CMD", *json.loads(IMAGE["HEALTHCHECK"].partition("CMD ")[2])]
    for service in COMPOSE.values():
        assert "build" in service or service["image"].rpartition(":")[2][0].isdigit()
        for volume in service["volumes"]:
            source, target, *_ = volume.split(":")
            assert not source.startswith("./") or (ROOT / source).is_file(), volume
            assert "podium.toml" not in source or f"PODIUM_CONFIG={target}" in IMAGE["ENV"]
    password = COMPOSE["database"]["environment"]["POSTGRES_PASSWORD"]
    assert all(each.startswith("${") for each in (replicas[0]["environment"]["OPENAI_API_KEY"], password))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose without an engine")
def test_docker_compose_reads_the_file(tmp_path: Path) -> None:
    command = ["docker-compose", "--file", str(ROOT / "compose.yaml"), "config"]
    own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for secrets, code in (({"POSTGRES_PASSWORD": "x", "OPENAI_API_KEY": "y"}, 0), ({}, 1)):
        done = subprocess.run(command, env=own | secrets, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert code == 0 or "POSTGRES_PASSWORD" in done.stderr


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


def beginning(call: Call, may_end: threading.Event) -> Reply:
    """Stream the beginning of an answer, and the rest when the event is set; a whole answer does not wait."""
    first, rest = (parts := list(says(call, "one two three").parts))[:3], parts[3:]

    def sent() -> Iterator[Part]:
        yield from first
        while rest and not may_end.is_set():
            yield Pause(0.05)
        yield from rest

    return Reply(sent())


@contextmanager
def balanced(urls: list[str], folder: Path) -> Iterator[str]:
    """Run the load balancer of the compose file in front of some servers, and yield its URL."""
    port = free_port()
    replicas = " ".join(url.removeprefix("http://").removesuffix("/v1") for url in urls)
    own = {**os.environ, "PORT": str(port), "REPLICAS": replicas, "HOME": str(folder)}
    command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(ROOT / "deploy/Caddyfile")]
    log = (folder / "caddy.log").open("wb")
    with log, subprocess.Popen(command, env=own, stdout=log, stderr=log) as running:
        try:
            url = f"http://127.0.0.1:{port}"
            assert until(lambda: answers(f"{url}/readyz")), (folder / "caddy.log").read_text()
            yield f"{url}/v1"
        finally:
            running.terminate()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("caddy") is None, reason="install caddy, the load balancer of compose.yaml")
def test_replicas_behind_a_balancer(tmp_path: Path, postgres_url: str, may_end: threading.Event) -> None:
    asked: Any = {"model": "alone", "messages": [{"role": "user", "content": "Count."}]}
    with ExitStack() as stack:
        upstream = stack.enter_context(ChatServer(lambda call: beginning(call, may_end)).in_thread())
        tables = {"models": '[models.alone]\nworker = "one"\n', "server": "drain_seconds = 20.0"}
        (tmp_path / "podium.toml").write_text(config(upstream.url, postgres_url, **tables))
        replicas = [stack.enter_context(process(tmp_path)) for _ in range(3)]
        url = stack.enter_context(balanced([each.url for each in replicas], tmp_path))
        client = stack.enter_context(OpenAI(base_url=url, api_key="none", max_retries=4, timeout=20))
        streams = [client.chat.completions.create(stream=True, **asked) for _ in range(3)]
        for stream in streams:  # before the rest was sent
            assert "one" in next(text for piece in stream if (text := piece.choices[0].delta.content))
        replicas[0].terminate()
        may_end.set()
        for stream in streams:
            assert "three" in "".join(piece.choices[0].delta.content or "" for piece in stream)
        assert replicas[0].wait(20) == 0
        for number in range(18):
            if number == 9:
                replicas[1].kill()
            assert client.chat.completions.create(**asked).choices[0].message.content == "one two three"


def test_the_image_is_pinned_and_has_no_root() -> None:
    found = instructions()
    bases = [rest for name, rest in found if name == "FROM"]
    assert all(re.match(r"\S+:\d+\.\d+\.\d+-", base) for base in bases)
    assert re.search(r"uv==\d+\.\d+\.\d+", FILE.read_text())
    last = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    own = dict(found[last:])
    assert (own["USER"], own["STOPSIGNAL"]) == ("10001", "SIGTERM")
    assert "/readyz" in own["HEALTHCHECK"]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_steps_build_a_server(tmp_path: Path) -> None:
    uv = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    source, target = tmp_path / "source", tmp_path / "podium"
    source.mkdir()
    for name in ("pyproject.toml", "uv.lock", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", ".venv")
    shutil.copytree(ROOT / "packages", source / "packages", ignore=ignored)
    env = {**os.environ, "PATH": f"{Path(uv).parent}:{os.environ['PATH']}"}
    (steps,) = [rest for name, rest in instructions() if name == "RUN" and "uv export" in rest]
    run(["bash", "-ec", steps.replace("/opt/podium", str(target))], source, env)
    work = tmp_path / "work"
    work.mkdir()
    (work / "podium.toml").write_text(DEMO)
    places = {"PODIUM_CONFIG": str(work / "podium.toml"), "XDG_STATE_HOME": str(work), "UV": uv}
    podium = str(target / "bin" / "podium")
    run([podium, "keys", "create", "alice"], work, {**env, **places})
    with process(work, "--host", "0.0.0.0", podium=podium, **places) as running:  # noqa: S104 - as in the image
        port = running.url.rpartition(":")[2].removesuffix("/v1")
        (check,) = [rest for name, rest in instructions() if name == "HEALTHCHECK"]
        _, script, code = json.loads(check.partition("CMD ")[2])
        run([str(target / "bin" / "python"), script, code.replace(":8000/", f":{port}/")], work, env)
        for module in ("mcp", "a2a", "asyncpg"):
            run([str(target / "bin" / "python"), "-c", f"import {module}"], work, env)


def run(command: list[str], folder: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=dict(env), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
