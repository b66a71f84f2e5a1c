"""Makes the pictures of the viewer in `docs/images`: `python -m scripts.viewer_pictures`.

It serves scripted models on loopback, asks them questions, and opens the viewer in Chromium (`make browser`).
"""

import json
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from playwright.sync_api import Page, sync_playwright

from podium.aio import run_sync
from podium.config import load_config
from podium_server import serve_in_thread
from podium_server.keys import KeyAccess, KeyRules, KeyStore

_TARGET = Path(__file__).parents[1] / "docs" / "images"
_CONFIG = """
[endpoints.here]
base_url = "{url}"
[workers.researcher]
endpoint = "here"
model = "researcher"
description = "Finds passages in contracts and logs."
price = {{ input = 1.0, output = 4.0 }}
[workers.analyst]
endpoint = "here"
model = "analyst"
description = "Computes and checks."
price = {{ input = 3.0, output = 15.0 }}
[workers.writer]
endpoint = "here"
model = "writer"
description = "Writes for people."
price = {{ input = 2.0, output = 8.0 }}
[planner]
endpoint = "here"
model = "planner"
price = {{ input = 0.2, output = 0.8 }}
[retry]
first_wait = 0.05
[server]
background_runs = 4
drain_seconds = 1
[models.podium]
[models.reviewed]
workers = ["analyst", "writer"]
"""
_PLAN: tuple[tuple[str, str, list[int]], ...] = (
    ("researcher", "List the promises about delivery in the contract.", []),
    ("researcher", "Find the days of delivery in the log.", []),
    ("researcher", "Find the penalties that the contract names for late delivery.", []),
    ("analyst", "Compute how late each delivery was.", [0, 1]),
    ("analyst", "Compute the total penalty, and check it.", [2, 3]),
    ("writer", "Write a summary for the management, with the sums.", [3, 4]),
)
_TEXTS = {
    "researcher": "Section 4 of the contract promises delivery within 14 days of an order.\n"
    "Section 9: each further day costs 2 % of the price, at most 20 %.",
    "analyst": "Order 1: 3 days late. Order 2: on time. Order 3: 12 days late.\n"
    "The penalties are 6 %, 0 % and 20 % of the prices: together 5,420 USD.",
    "writer": "Two of three deliveries were late, by 3 and by 12 days. The contract allows a penalty of "
    "2 % for each day, and at most 20 % of the price.\n\nThe total penalty is 5,420 USD. The third delivery "
    "has reached the maximum, so a longer delay would not have cost more.",
}
_RUNS_OF_DAYS = [5, 7, 4, 0, 1, 6, 9, 8, 3, 5, 1, 0, 4, 6, 5, 3, 7, 2, 0, 3, 4, 5, 2]
_SLOW = "How late were the deliveries, and what does the supplier owe us?"
_QUESTIONS = (
    "Which clauses changed since March?",
    "Summarise the contract for the new manager.",
    "Which suppliers raised their prices this year, and by how much?",
    "Is clause 7 still valid after the amendment of May?",
    "Compare the offers of the three carriers.",
    "How late were the deliveries, and what is the penalty?",
)


def main() -> int:
    """Make the pictures."""
    with TemporaryDirectory(prefix="podium-pictures-") as folder, _models() as url:
        path = Path(folder) / "podium.toml"
        database = f"sqlite:///{folder}/runs.db"
        path.write_text(_CONFIG.format(url=url) + f'[journal]\nurl = "{database}"\n', encoding="utf-8")
        config = load_config(path)
        store = KeyStore(database)
        rules = KeyRules(role="admin", day_cost=8.0, month_cost=60.0, run_cost=0.5)
        _, key = run_sync(lambda: store.create("contracts team", rules))
        with (
            serve_in_thread(config, access=KeyAccess(store, journal=config.journal())) as served,
            httpx2.Client(base_url=served, headers={"authorization": f"Bearer {key}"}, timeout=60) as client,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 760}, device_scale_factor=1)
            page.goto(served.removesuffix("/v1"))
            page.get_by_label("API key").fill(key)
            page.get_by_role("button", name="Log in").click()
            _take(page, served.removesuffix("/v1"), client, Path(folder) / "runs.db")
            browser.close()
    return 0


def _take(page: Page, root: str, client: httpx2.Client, database: Path) -> None:
    ids = [_begin(client, question) for question in _QUESTIONS]
    for run_id in ids:
        _wait(client, run_id)
    _begin(client, "What is the sum of the penalties?", limits={"cost": 0.00001})
    live = _begin(client, _SLOW)
    page.goto(f"{root}/#/runs/{live}/1.4")
    page.get_by_label("Step 4, analyst, running").wait_for()
    page.locator(".panel pre.writing").get_by_text("together").wait_for()
    _shoot(page, "viewer-live")
    for question in ("Which orders are still open?", "Draft a letter to the supplier."):
        _begin(client, question)
    page.goto(f"{root}/#/")
    page.get_by_role("row").nth(8).wait_for()
    page.wait_for_timeout(500)
    _shoot(page, "viewer-runs")
    _wait(client, live)
    page.goto(f"{root}/#/runs/{ids[-1]}/1.4")
    page.locator(".panel").get_by_text("Prompt").click()
    page.get_by_role("heading", name="Bill").wait_for()
    _shoot(page, "viewer-run")
    _copy(database, ids[-1])
    page.goto(f"{root}/#/sums")
    page.get_by_role("heading", name="Cost by day").wait_for()
    _shoot(page, "viewer-sums")
    page.goto(f"{root}/#/compare/{ids[-1]}/{ids[0]}")
    page.get_by_role("heading", name="Steps").wait_for()
    _shoot(page, "viewer-compare")


def _copy(database: Path, run_id: str) -> None:
    """Copy a run to each of the days before, several times."""
    with sqlite3.connect(database) as journal:
        for day, count in enumerate(_RUNS_OF_DAYS, 1):
            for number in range(count):
                for table in ("podium_runs", "podium_events"):
                    names = [each[1] for each in journal.execute(f"PRAGMA table_info({table})")]
                    changed = {"run_id": f"'{day}.{number}' || run_id", "began": f"began - {day * 86400}"}
                    chosen = ", ".join(changed.get(each, each) for each in names)
                    copy = f"INSERT INTO {table} SELECT {chosen} FROM {table} WHERE run_id = ?"  # noqa: S608
                    journal.execute(copy, [run_id])


def _shoot(page: Page, name: str) -> None:
    page.wait_for_timeout(300)
    page.screenshot(path=_TARGET / f"{name}.png")


def _begin(client: httpx2.Client, question: str, **options: Any) -> str:
    body = {"model": "podium", "query": question, **options}
    run_id: str = client.post("/runs", json=body).raise_for_status().json()["id"]
    return run_id


def _wait(client: httpx2.Client, run_id: str) -> None:
    while client.get(f"/runs/{run_id}").json()["status"] in ("queued", "running"):
        time.sleep(0.05)


class _Model(BaseHTTPRequestHandler):
    """Answers as the planner or as a worker; slowly for one of the questions."""

    def do_POST(self) -> None:
        """Answer a request."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = _answer(asked["model"])
        pause = 0.25 if _SLOW in str(asked["messages"]) else 0.0
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if asked.get("stream") else "application/json")
        self.end_headers()
        usage = {"prompt_tokens": len(str(asked["messages"])) // 4, "completion_tokens": len(text) // 4}
        if not asked.get("stream"):
            time.sleep(0.1)
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            self.wfile.write(json.dumps({"choices": [choice], "usage": usage}).encode())
            return
        for word in text.splitlines(keepends=True):
            for part in word.split(" "):
                self._send({"content": f"{part} " if not part.endswith("\n") else part})
                time.sleep(pause if asked["model"] == "analyst" else 0.0)
        self._send({}, finish_reason="stop", usage=usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: dict[str, str], finish_reason: str | None = None, **more: Any) -> None:
        body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], **more}
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - its name in the standard library
        """Write no log."""


def _answer(model: str) -> str:
    if model != "planner":
        return _TEXTS[model]
    names = list(_TEXTS)
    rows = [{"worker": names.index(name), "subtask": task, "access": seen} for name, task, seen in _PLAN]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@contextmanager
def _models() -> Iterator[str]:
    """Serve the models in a thread, and yield their base URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Model) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
