"""The times in Chromium while a run is carried out: the clock, and the steps that the run waits for."""

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve, team
from server.viewer.conftest import STEPS, ended, start
from servers.chat_server import Call, ChatServer, Part, Pause, Reply, says, whole
from servers.podium_server import Served

pytestmark = pytest.mark.long

ACCESS: tuple[list[int], ...] = ([], [], [0], [1], [2, 3], [3, 4])


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


def critical(page: Page) -> list[int]:
    """Return the steps on the critical path."""
    classes = [node.get_attribute("class") or "" for node in page.locator(".node").all()]
    return [at for at, each in enumerate(classes) if "hot" in each.split()]


def test_the_critical_path_has_the_steps_that_the_run_waits_for(
    served: Served, upstream: ChatServer, page: Page
) -> None:
    """While a step runs, the thick line goes through it, and not past it."""
    client = served.http()
    paths = {2: [0, 2, 4, 5], 3: [1, 3, 4, 5], 4: [4, 5]}
    for slow, path in paths.items():
        may_end = threading.Event()
        upstream.reply = waiting_for(may_end)
        steps: list[dict[str, Any]] = [
            {"worker": "two" if at == slow else "one", "subtask": f"Part {at}.", "access": access}
            for at, access in enumerate(ACCESS)
        ]
        run_id = start(client, plan={"steps": steps})
        page.goto(f"{served.root}/#/runs/{run_id}")
        expect(page.get_by_label(f"Step {slow}, two, running")).to_be_visible()
        expect(page.get_by_label(f"Step {2 if slow == 3 else 3}, one, ok")).to_be_visible()
        assert critical(page)[-len(path) :] == path
        may_end.set()
        expect(page.get_by_label("Step 5, one, ok")).to_be_visible()
        assert critical(page)[-len(path) :] == path


def test_the_time_and_the_title_of_a_fallback(serve: Serve, upstream: ChatServer, page: Page) -> None:
    """The box has the time of the step, and the panel has the worker that answered."""

    def reply(call: Call) -> Reply:
        if call.body["model"] == "two":
            return whole({"error": {"message": "out of memory"}}, status=500)
        return says(call, "facts")

    upstream.reply = reply
    served = serve(models='[retry]\nattempts = 2\nfirst_wait = 0.01\nfallbacks = { two = ["one"] }\n')
    client = served.http()
    run_id = start(client, plan={"steps": [{**STEPS[2], "access": []}]})
    ended(client, run_id)
    page.goto(f"{served.root}/#/runs/{run_id}/1.0")
    expect(page.locator(".node .took")).to_have_text(re.compile(r"^\d+ ms|\d\.\d s$"))
    expect(page.get_by_role("heading", name="Step 0")).to_have_text("Step 0 two → one")
