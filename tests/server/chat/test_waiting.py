"""Requests whose plans wait for an approval."""

from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "podium", "messages": ASKED},
    "/v1/responses": {"model": "podium", "input": "Why is the sky blue?"},
    "/v1/messages": {"model": "podium", "messages": ASKED, "max_tokens": 900},
}


@pytest.mark.long
@pytest.mark.parametrize("path", BODIES)
def test_the_same_key_is_the_same_run(path: str, serve: Serve) -> None:
    """A key names the run, until it is decided; without a key, each request has a run of its own."""
    root = serve(models='[policy]\napprove = "later"\n').root

    def ask(key: str | None) -> httpx2.Response:
        headers = {} if key is None else {"idempotency-key": key}
        return httpx2.post(f"{root}{path}", json=BODIES[path], headers=headers, timeout=20)

    def waiting(key: str | None) -> str:
        answer = ask(key)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (409, "waiting")
        assert answer.headers["x-should-retry"] == "false"
        run_id: str = answer.headers["x-podium-run-id"]
        assert f"/v1/runs/{run_id}/approve" in error["message"]
        return run_id

    first = waiting("a")
    assert waiting("a") == first
    assert len({first, waiting(None), waiting(None)}) == 3
    decided = httpx2.post(f"{root}/v1/runs/{first}/approve", json={}, timeout=20)
    assert decided.status_code < 300, decided.text
    answer = ask("a")
    assert answer.status_code == 200
    assert "the answer" in answer.text
