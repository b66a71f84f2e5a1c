"""Imports CrewAI once with its own data folder, because the import changes the process and writes files."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import pytest
from openai import OpenAI

_HOME = mkdtemp(prefix="crewai-")
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}
os.environ["XDG_DATA_HOME"] = f"{_HOME}/data"
with patch.dict(os.environ, HOME=_HOME), warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of its own imports
    from crewai.agents.agent_executor import AgentExecutor, AgentExecutorState
    from crewai.flow.flow import FlowState


class _State(FlowState, AgentExecutorState):
    """The state of an executor, made once: CrewAI makes this class anew for each call of an agent."""


AgentExecutor._initial_state_t = _State  # type: ignore[attr-defined] # takes a quarter of the time of the tests

_OLD = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:crewai\.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow CrewAI's own deprecation warnings, which creating an agent causes."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(_OLD)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the seconds for which CrewAI itself waits before it repeats a call that met a rate limit."""
    monkeypatch.setattr("crewai.llms.retry.get_retry_delay_seconds", lambda **_: 0.01)


@pytest.fixture(autouse=True)
def close_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the clients of models, which CrewAI leaves to the garbage collector of another test."""
    made: list[OpenAI] = []
    begin = OpenAI.__init__

    def init(client: OpenAI, *args: Any, **options: Any) -> None:
        begin(client, *args, **options)
        made.append(client)

    monkeypatch.setattr(OpenAI, "__init__", init)
    yield
    for client in made:
        client.close()
