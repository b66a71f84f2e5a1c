"""The times in Chromium while a run is carried out: the clock, and the steps that the run waits for."""

import re
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from server.scene import team
from server.viewer.conftest import STEPS, ended, start
from servers.chat_server import Call, ChatServer, Part, Pause, Reply
from servers.podium_server import Served

pytestmark = pytest.mark.long


def waiting_for(may_end: threading.Event, name: str = "two") -> Callable[[Call], Reply]:
    """Return a team whose worker with this name answers after an event."""

    def late(call: Call) -> Iterator[Part]:
        while not may_end.is_set():
            yield Pause(0.02)
        yield from team(call).parts

    return lambda call: Reply(late(call)) if call.body["model"] == name else team(call)


def test_the_clock_of_a_run(served: Served, upstream: ChatServer, page: Page) -> None:
    """The times of a run and its running step go on without an event, also with a wrong clock."""
    may_end = threading.Event()
    upstream.reply = waiting_for(may_end)
    client = served.http()
    page.add_init_script("const now = Date.now; Date.now = () => now() + 3_600_000")
    run_id = start(client, plan={"steps": STEPS})
    page.goto(f"{served.root}/#/runs/{run_id}")
    gauge = page.locator(".gauge").filter(has_text="time")
    box = page.locator(".node.s-running .took")
    for second in (1, 2):
        expect(gauge).to_contain_text(re.compile(rf"time {second} s"))
        expect(box).to_have_text(re.compile(rf"{second} s|{second - 1} s"))
    may_end.set()
    expect(page.get_by_label("Step 2, two, ok")).to_be_visible()
    took = ended(client, run_id)["seconds"]
    expect(gauge).to_contain_text(f"time {took:.1f} s")
    expect(page.locator(".node .took").last).to_have_text(re.compile(r"^\d\.\d s$"))
