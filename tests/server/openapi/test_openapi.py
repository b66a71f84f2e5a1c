"""The OpenAPI document has every route, and the server keeps what it says."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance
from starlette.routing import Route
from typer.testing import Result

from podium_server import create_app, demo_config, serve_in_thread
from podium_server.api.openapi import OPERATIONS, openapi_path

SOAK = int(os.environ.get("SOAK", "1"))
ROOT = Path(__file__).parents[3]
SETTINGS: Any = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    with demo_config() as config, serve_in_thread(config) as url:
        yield url.removesuffix("/v1")


@pytest.fixture(scope="module")
def document(root: str) -> Any:
    return httpx2.get(f"{root}/openapi.json").json()


def routes() -> set[tuple[str, str]]:
    with demo_config() as config:
        found = [route for route in create_app(config).routes if isinstance(route, Route)]
    return {(method, openapi_path(r.path)) for r in found for method in (r.methods or set()) - {"HEAD"}}


def test_the_document_has_every_route(document: Any) -> None:
    paths = document["paths"]
    assert {(method.upper(), path) for path, each in paths.items() for method in each} == routes()
    assert set(OPERATIONS) <= routes()
    operations = [operation for each in paths.values() for operation in each.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["summary"] for operation in operations)


def test_the_pages_list_every_route() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("server*.md")))
    rows = re.findall(r"^\| `([A-Z,]+) (/\S*)` \|", text, re.MULTILINE)
    listed = [(method, path) for methods, path in rows for method in methods.split(",")]
    assert sorted(listed) == sorted(routes())


def test_the_table_of_features_has_every_field(document: Any) -> None:
    section = (ROOT / "docs/server.md").read_text(encoding="utf-8").split("## Features")[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    for column, schema in ((2, "ChatRequest"), (3, "ResponseRequest"), (4, "MessagesRequest")):
        named = set(re.findall(r"`([a-z_]+)", "".join(row[column] for row in rows)))
        assert set(document["components"]["schemas"][schema]["properties"]) - {"model"} <= named, schema


def test_the_command_writes_the_document(podium: Callable[..., Result], document: Any) -> None:
    """`podium serve --openapi` writes what `/openapi.json` answers."""
    assert json.loads(podium("serve", "--openapi").stdout) == document


@pytest.mark.timeout(240 * SOAK)
@pytest.mark.parametrize(
    "examples", [pytest.param(3, marks=pytest.mark.long), pytest.param(20 * SOAK, marks=pytest.mark.nightly)]
)
def test_no_request_is_a_server_error(root: str, examples: int) -> None:
    """Each that is made from the document is answered in time; `make soak` makes ten times as many.

    Half of the requests for a run, a response or a model name one that exists.
    """
    asked = {"model": "podium", "input": "What is 17.5% of 2,340?"}
    made = httpx2.post(f"{root}/v1/responses", json=asked, timeout=20)
    known = {"run_id": made.headers["x-podium-run-id"], "response_id": made.json()["id"], "model": "podium"}
    known |= {"file": "main.js", "key": "alice"}
    schema = schemathesis.openapi.from_url(f"{root}/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy(), is_known=strategies.booleans())
        @settings(max_examples=examples, database=None, phases=[Phase.generate], **SETTINGS)
        def answers(case: Any, *, is_known: bool) -> None:
            for name in case.path_parameters if is_known else ():
                case.path_parameters[name] = known[name]
            response = case.call(timeout=20)
            case.validate_response(response, checks=[not_a_server_error, response_schema_conformance])

        answers()
