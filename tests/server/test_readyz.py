"""`GET /readyz` while a database is broken."""

from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from server.scene import Serve, config, keys_in
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving

from benchmarks.postgres_server import PostgresServer


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium_server.health.KNOWN_SECONDS", 0.0)


def reason(served: Served) -> tuple[int, str | None, str | None]:
    """Return the status of `/readyz`, and the code and the reason of its answer."""
    answer = httpx2.get(f"{served.root}/readyz", timeout=10)
    body = answer.json()
    return answer.status_code, body.get("code"), body.get("reason")


def test_a_deleted_file(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    assert reason(served) == (200, None, None)
    (tmp_path / "runs.db").unlink()
    assert reason(served) == (503, "journal", "the journal cannot be used")
    assert httpx2.get(f"{served.root}/healthz").status_code == 200


@pytest.mark.long
def test_a_server_of_a_database_that_is_down(upstream: ChatServer, tmp_path: Path) -> None:
    with ExitStack() as stack:
        down = stack.enter_context(PostgresServer())
        text = config(upstream.url, down.url(driver="postgresql"))
        text = text.replace("[server]", "patience = 5.0\n[server]")
        served = stack.enter_context(serving(text, tmp_path, keys_in(tmp_path / "keys.db")))
        assert reason(served) == (200, None, None)
        down.stop(immediate=True)
        answer = httpx2.get(f"{served.root}/readyz", timeout=10)
        assert (answer.status_code, answer.json()["code"]) == (503, "journal")
        assert str(down.port) not in answer.text
        down.start()
        assert reason(served) == (200, None, None)
        (tmp_path / "keys.db").unlink()
        assert reason(served) == (503, "journal", "the database of the API keys cannot be used")
