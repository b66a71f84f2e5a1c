"""The command: opens the viewer in Chromium, presses keys while a run streams, and prints the delays.

It needs Chromium (`make browser`) and Playwright, which the development environment has.
"""

import argparse
import shutil
import sqlite3
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from playwright.sync_api import Page, sync_playwright
from rich.console import Console

from benchmarks.bars import Bar, bars_table
from benchmarks.gateway.processes import started
from benchmarks.viewer import model_server

_ROOT = Path(__file__).parents[2]
_STEPS = 4
_MOST_DELAY = 100.0
_CONFIG = """
[endpoints.here]
base_url = "{url}"
[workers.writer]
endpoint = "here"
model = "writer"
description = "Writes."
[planner]
endpoint = "here"
model = "planner"
[journal]
path = "runs.db"
"""
_OBSERVE = """() => {
  window.seen = { inputs: [], tasks: [] };
  const watch = (type, into, options) => new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) into.push(entry.duration);
  }).observe({ type, buffered: true, ...options });
  watch("event", window.seen.inputs, { durationThreshold: 16 });
  watch("longtask", window.seen.tasks, {});
}"""


def main() -> int:
    """Run the command; return 0 if everything was measured, whether or not the limits are met."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=int, default=1000, help="pieces of texts per second")
    options.add_argument("--seconds", type=float, default=20.0, help="how long they are written")
    options.add_argument("--runs", type=int, default=10_000, help="runs in the list")
    chosen = options.parse_args()
    bars: list[Bar] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="podium-viewer-")))
        shape = (str(_STEPS), str(chosen.rate // _STEPS), str(chosen.seconds))
        model = stack.enter_context(
            started((sys.executable, "-m", model_server.__name__, "{port}", *shape), path="/v1", folder=_ROOT)
        )
        (folder / "podium.toml").write_text(_CONFIG.format(url=model.url), encoding="utf-8")
        command = (sys.executable, "-m", "podium", "serve", "--port", "{port}")
        server = stack.enter_context(started(command, path="", folder=folder))
        playwright = stack.enter_context(sync_playwright())
        executable = shutil.which("chromium")
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        run_id = _begin(server.url)
        bars += _of_run(page, server.url, run_id, chosen.rate, chosen.seconds)
        _copy(folder / "runs.db", run_id, chosen.runs)
        bars += _of_list(page, server.url, chosen.runs)
        browser.close()
    Console().print(bars_table(bars))
    return 0


def _begin(url: str) -> str:
    asked = {"model": "podium", "query": "What is written?"}
    answer = httpx2.post(f"{url}/v1/runs", json=asked, timeout=60).raise_for_status()
    run_id: str = answer.json()["id"]
    return run_id


def _of_run(page: Page, url: str, run_id: str, rate: int, seconds: float) -> list[Bar]:
    """Press keys and open steps while the steps write."""
    page.goto(f"{url}/#/runs/{run_id}")
    page.locator(".node").first.wait_for(timeout=60_000)
    page.get_by_label("Step 0, writer, running").wait_for(timeout=60_000)
    page.evaluate(_OBSERVE)
    cpu = _Cpu(page)
    began, pressed = time.monotonic(), 0
    length = "document.querySelector('.panel').textContent.match(/of ([0-9,]+) characters/)?.[1] ?? '0'"
    while time.monotonic() - began < seconds - 2:
        for key in ("j", "+", "k", "-", "f", "Escape", "j"):
            page.keyboard.press(key)
            page.wait_for_timeout(60)
            pressed += 1
        page.get_by_label("Step 1, writer").first.click()
        pressed += 1
    page.wait_for_timeout(500)  # until the panel of the step is drawn
    written = int(page.evaluate(length).replace(",", ""))
    took = time.monotonic() - began
    busy, seen = cpu.share(), page.evaluate("window.seen")
    expected = len("word1234 ") * rate / _STEPS * took
    print(
        f"{pressed} inputs in {took:.1f} s; step 1 shows {written} characters, about {expected:.0f} were sent"
    )
    return _bars(f"a run with {rate} pieces/s", seen, busy)


def _of_list(page: Page, url: str, runs: int) -> list[Bar]:
    """Load all runs, and move in the list while it refreshes."""
    page.goto("about:blank")
    page.goto(url)
    page.get_by_role("row").first.wait_for()
    rows = page.locator(".rows")
    page.evaluate(_OBSERVE)
    cpu = _Cpu(page)
    while page.get_by_role("table").get_attribute("aria-rowcount") == "-1":
        rows.evaluate("each => each.scrollTop = each.scrollHeight")
        page.keyboard.press("k")
        page.wait_for_timeout(30)
    for _ in range(60):
        page.keyboard.press("j")
        page.wait_for_timeout(40)
    page.mouse.move(640, 400)
    for _ in range(60):
        page.mouse.wheel(0, 3000)
        page.keyboard.press("c")
        page.wait_for_timeout(40)
    return _bars(f"a list of {runs} runs", page.evaluate("window.seen"), cpu.share())


class _Cpu:
    """The CPU time of a page's main thread, which other work of the machine does not change.

    Args:
        page: the page.
    """

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._before, self._began = self._used(), time.monotonic()

    def share(self) -> float:
        """Return the used part of the time since the start, in percent."""
        return 100 * (self._used() - self._before) / (time.monotonic() - self._began)

    def _used(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def _bars(what: str, seen: Any, busy: float) -> list[Bar]:
    inputs, tasks = (sorted(seen[kind]) or [0.0] for kind in ("inputs", "tasks"))
    late = sum(each > _MOST_DELAY for each in inputs)
    return [
        Bar(what=f"{what}: longest delay of an input", limit=_MOST_DELAY, unit="ms", measured=inputs[-1]),
        Bar(
            what="median of the inputs above 16 ms", limit=None, unit="ms", measured=inputs[len(inputs) // 2]
        ),
        Bar(what="inputs above 100 ms", limit=0, unit="", measured=late),
        Bar(what="longest task", limit=None, unit="ms", measured=tasks[-1]),
        Bar(what="CPU of the page's main thread", limit=None, unit="%", measured=busy),
    ]


def _copy(path: Path, run_id: str, count: int) -> None:
    """Copy the first record of a run many times, under other ids and times."""
    with sqlite3.connect(path, timeout=30) as database:
        for table in ("podium_runs", "podium_events"):
            names = [each[1] for each in database.execute(f"PRAGMA table_info({table})")]
            changed = {"run_id": "? || run_id", "began": "began - ?", "state": "'ok'"}
            chosen = ", ".join(changed.get(each, each) for each in names)
            where = "AND number = 0" if table == "podium_events" else ""
            statement = f"INSERT INTO {table} SELECT {chosen} FROM {table} WHERE run_id = ? {where}"  # noqa: S608
            values = [(f"{at:05}", *((at,) if "began" in names else ()), run_id) for at in range(count)]
            database.executemany(statement, values)


if __name__ == "__main__":
    sys.exit(main())
