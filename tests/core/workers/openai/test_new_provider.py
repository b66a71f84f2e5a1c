"""Adding a provider takes one row in one file: everything else derives from the table."""

import ast
from pathlib import Path
from typing import cast

import pytest
from servers.chat_call import ask
from servers.chat_server import Call, Reply, says

import podium
from podium.config import load_config
from podium.errors import ConfigError
from podium.secrets import scrub
from podium.telemetry.trace import describe
from podium.types import Constraint, Sampling
from podium.workers import ChatWorker, Endpoint, Timeouts
from podium.workers.openai import providers
from podium.workers.openai.providers import PROVIDERS, Provider

ROOT = Path(podium.__file__).parent
ALL = Sampling(
    temperature=0.5,
    top_p=0.9,
    stop=("END",),
    seed=3,
    max_tokens=64,
    effort="high",
    constraint=Constraint("json", {"type": "object"}),
)
"""Asks for everything that a provider may take."""


def hello(call: Call) -> Reply:
    """Answer in a word."""
    return says(call, "hello")


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Provider:
    """Add a row to the table."""
    row = Provider(
        name="acme",
        telemetry_name="acme.ai",
        public_headers=frozenset({"x-acme-app"}),
        max_tokens="max_completion_tokens",
        constraints={"json": "response_format"},
        timeouts=Timeouts(idle=7.0),
        omitted=frozenset({"seed"}),
    )
    monkeypatch.setitem(cast("dict[str, Provider]", PROVIDERS), row.name, row)
    return row


def test_a_new_row_can_be_named_in_a_file(acme: Provider, tmp_path: Path) -> None:
    """`podium.toml` takes its name, and the endpoint waits as long as the row says."""
    path = tmp_path / "podium.toml"
    path.write_text(
        '[endpoints.there]\nbase_url = "http://localhost:8000/v1"\nprovider = "acme"\n'
        '[workers.solver]\nendpoint = "there"\nmodel = "m"\n[planner]\nworker = "solver"\n'
    )
    worker = load_config(path).worker("solver")
    assert isinstance(worker, ChatWorker)
    assert worker.endpoint.provider is acme
    assert worker.endpoint.timeouts.idle == 7.0
    assert worker.constraint_kinds == {"json"}


@pytest.mark.anyio
async def test_a_new_row_is_spoken_to_in_its_dialect(acme: Provider) -> None:
    """Requests use its fields, and leave out those that it does not take."""
    body = (await ask(hello, provider=acme.name, sampling=ALL)).body
    assert body["max_completion_tokens"] == 64
    assert "response_format" in body
    assert "seed" not in body


def test_a_new_row_is_told_of(acme: Provider) -> None:
    """Spans have its name in OpenTelemetry's conventions, and a wrong name is answered with it."""
    worker = ChatWorker("m", endpoint=Endpoint("http://localhost:1/v1", provider=acme.name))
    assert describe(worker, "m")[1]["gen_ai.provider.name"] == "acme.ai"
    with pytest.raises(ConfigError, match=r"provider 'other' is unknown.*acme"):
        Endpoint("http://localhost:1/v1", provider="other")


def test_a_new_rows_public_headers_are_no_secrets(acme: Provider) -> None:
    """Values of the headers that it names stay readable; those of others do not."""
    headers = {"X-Acme-App": "our-own-application", "X-Acme-Pass": "a-pass-nobody-knows"}
    Endpoint("http://localhost:1/v1", provider=acme.name, headers=headers)
    shown = scrub(" ".join(headers.values()))
    assert "our-own-application" in shown
    assert "a-pass-nobody-knows" not in shown


@pytest.mark.anyio
@pytest.mark.parametrize("name", PROVIDERS)
async def test_every_row_is_spoken_to_as_it_says(name: str) -> None:
    """Whatever the table holds: a field that a row omits is not sent, every other one is."""
    row = PROVIDERS[name]
    body = (await ask(hello, provider=name, sampling=ALL, stream=True)).body
    assert row.name == name
    assert body[row.max_tokens] == 64
    assert (row.effort is None) is not (row.effort in body)
    fields = {"temperature", "top_p", "stop", "seed", "stream_options"}
    assert body.keys() & fields == fields - row.omits("m")
    assert body.keys() >= {field for kind, field in row.constraints.items() if kind == "json"}


@pytest.mark.long
def test_no_other_module_names_a_provider() -> None:
    """A new row is found by all that could ask for it, since none of them has a list of its own."""
    names = PROVIDERS.keys() - {"podium"}  # the name of much else
    others = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }
    others.remove(Path(providers.__file__).relative_to(ROOT).as_posix())
    of_presets = {"cli/init.py", "config/sections.py", "workers/command.py"}  # and the name of a model
    assert others == of_presets | {"hosts/openai.py"}  # a package to import
