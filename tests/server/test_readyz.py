"""`GET /readyz` while a database is broken."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from server.scene import CONFIG, Serve
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving

from benchmarks.postgres_server import PostgresServer
from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyStore


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium_server.health.KNOWN_SECONDS", 0.0)


@pytest.fixture
def down() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def reason(served: Served) -> tuple[int, str | None, str | None]:
    """Return the status of `/readyz`, and the code and the reason of its answer."""
    answer = httpx2.get(f"{served.root}/readyz", timeout=10)
    body = answer.json()
    return answer.status_code, body.get("code"), body.get("reason")


@pytest.mark.usefixtures("anew")
def test_a_deleted_file(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    assert reason(served) == (200, None, None)
    (tmp_path / "runs.db").unlink()
    assert reason(served) == (503, "journal", "the journal cannot be used")
    assert httpx2.get(f"{served.root}/healthz").status_code == 200


@pytest.mark.long
@pytest.mark.usefixtures("anew")
def test_a_server_of_a_database_that_is_down(
    upstream: ChatServer, tmp_path: Path, down: PostgresServer
) -> None:
    journal = SqlJournal(tmp_path / "keys.db")
    access = KeyAccess(KeyStore(journal), journal=journal)
    text = CONFIG.format(url=upstream.url, models="", server="")
    text = text.replace('path = "runs.db"', f'url = "{down.url(driver="postgresql")}"\npatience = 5.0')
    with serving(text, tmp_path, access) as served:
        assert reason(served) == (200, None, None)
        down.stop(immediate=True)
        answer = httpx2.get(f"{served.root}/readyz", timeout=10)
        assert (answer.status_code, answer.json()["code"]) == (503, "journal")
        assert str(down.port) not in answer.text
        down.start()
        assert reason(served) == (200, None, None)
        (tmp_path / "keys.db").unlink()
        assert reason(served) == (503, "journal", "the database of the API keys cannot be used")
