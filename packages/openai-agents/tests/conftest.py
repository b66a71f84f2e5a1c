"""Fixtures of this package's tests: no trace leaves the machine, and no client stays open."""

from collections.abc import Iterator

import pytest
from agents import set_trace_processors


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _no_upload() -> Iterator[None]:
    set_trace_processors([])
    yield
    set_trace_processors([])
