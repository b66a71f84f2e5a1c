"""The viewer in Chromium while runs happen: plans and texts that are being written, the queue, and calls."""

import threading

import pytest
from playwright.sync_api import Page, expect
from server.scene import ASKED, PLAN, ended, team
from server.viewer.conftest import in_halves, start
from servers.chat_server import Call, ChatServer, Reply, says
from servers.podium_server import Served

pytestmark = pytest.mark.long

ROWS = (
    '{"worker": 0, "subtask": "Collect facts.", "access": []}\n'
    '{"worker": 0, "subtask": "Find doubts in {{0}}.", "access": [0]}\n'
)


def test_a_streamed_answer_fills_in(served: Served, upstream: ChatServer, page: Page) -> None:
    """The output of a step is shown before the step has ended, also if the viewer comes later."""
    may_end = threading.Event()

    def reply(call: Call) -> Reply:
        if call.body["model"] != "two":
            return team(call)
        return in_halves("The first half", " and the second", may_end)

    upstream.reply = reply
    stream = served.client().chat.completions.create(model="podium", messages=ASKED, stream=True)
    with stream:
        next(each for each in stream if each.choices and each.choices[0].delta.content)
        page.goto(served.root)
        page.get_by_role("link", name="Why is the sky blue?").click()
        page.get_by_label("Step 1, two, running").click()
        expect(page.get_by_label("Step 1", exact=True).locator("pre.writing")).to_have_text("The first half")
        expect(page.locator(".body > pre")).to_have_text("The first half")
        may_end.set()
        expect(page.get_by_label("Step 1, two, ok")).to_be_visible()
        expect(page.locator(".body > pre")).to_have_text("The first half and the second")
        for _ in stream:
            pass


def test_a_run_in_the_background(served: Served, upstream: ChatServer, page: Page) -> None:
    """It streams while it is watched."""
    may_plan, may_end = threading.Event(), threading.Event()

    def reply(call: Call) -> Reply:
        match call.body["model"]:
            case "planner":
                return in_halves("The plan:\n", PLAN, may_plan)
            case "one":
                return in_halves("Some facts", " and more", may_end)
        return says(call, "the answer")

    upstream.reply = reply
    client = served.http()
    run_id = start(client)
    page.goto(f"{served.root}/#/runs/{run_id}")
    expect(page.locator(".plan-text")).to_have_text("The plan:")
    may_plan.set()
    page.get_by_label("Step 0, one, running").click()
    panel = page.get_by_label("Step 0", exact=True)
    expect(panel.locator("pre.writing")).to_have_text("Some facts")
    may_end.set()
    expect(panel.locator("pre.text").last).to_have_text("Some facts and more")
    assert ended(client, run_id)["status"] == "ok"
    page.goto("about:blank")
    upstream.reply = team
    before = len(upstream.calls)
    ended(client, start(client))
    assert [call.body.get("stream", False) for call in upstream.calls[before:]] == [True, False, False]
