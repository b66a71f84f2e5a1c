"""Workflows in Chromium: maps, blocks, loops, skipped steps, and fan-outs that wait for an approval."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve
from server.viewer.conftest import ended, start
from servers.chat_server import Call, ChatServer, Reply, says

pytestmark = pytest.mark.long

ITEMS = 230
LIST = {"worker": "one", "subtask": "List.", "access": [], "returns": {"items": [{"name": "string"}]}}
STEPS: list[dict[str, Any]] = [
    LIST,
    {"worker": "one", "subtask": "Read {{item.name}}.", "access": [], "each": "{{0.items}}"},
    {
        "steps": [
            {
                "worker": "two",
                "subtask": "Turn {{previous.note}}.",
                "access": ["previous"],
                "returns": {"done": "boolean", "note": "string"},
            }
        ],
        "until": {"ref": "{{0.done}}", "is": True},
        "most": 5,
        "access": [],
    },
    {
        "worker": "two",
        "subtask": "Never.",
        "access": [],
        "when": {"ref": "{{0.items.0.name}}", "is": "z"},
    },
    {"worker": "two", "subtask": "Write {{2.note}}.", "access": [1, 2, 3]},
]


def work(call: Call) -> Reply:
    """Do a step of `STEPS`: the loop has two turns, and the last item fails."""
    asked = str(call.body["messages"][-1]["content"])
    if "List." in asked:
        return says(call, json.dumps({"items": [{"name": f"n{at}"} for at in range(ITEMS)]}))
    if "Turn" in asked:
        return says(call, json.dumps({"done": "Turn x" in asked, "note": "x"}))
    if f"Read n{ITEMS - 1}." in asked:
        return says(call, "")
    return says(call, "done")


def test_a_workflow(serve: Serve, upstream: ChatServer, page: Page) -> None:
    upstream.reply = work
    served = serve(models="[limits]\nsteps = 100\n[retry]\nattempts = 1\n")
    run_id = start(served.http(), plan={"steps": STEPS})
    ended(served.http(), run_id)
    page.goto(f"{served.root}/#/runs/{run_id}")
    expect(page.locator(".node")).to_have_count(5)
    expect(page.get_by_label(f"Step 1, one, ok, {ITEMS} of {ITEMS}, 1 failed")).to_be_visible()
    expect(page.get_by_label("Step 2, loop, ok, turn 2 of 5")).to_be_visible()
    skipped = page.get_by_label("Step 3, two, skipped, ")
    expect(skipped).to_be_visible()
    expect(page.locator(".node.s-skipped")).to_contain_text("condition")
    page.get_by_label(f"Step 1, one, ok, {ITEMS} of {ITEMS}").click()
    panel = page.get_by_label("Step 1", exact=True)
    expect(panel.locator(".parts li")).to_have_count(200)
    expect(panel.get_by_text("and 30 more")).to_be_visible()
    expect(panel.get_by_text("Runs for each of {{0.items}}.")).to_be_visible()
    panel.get_by_role("link", name="1[17]").click()
    item = page.get_by_label("Step 1[17]")
    expect(item).to_contain_text("Read n17.")
    item.get_by_role("link", name="step 1", exact=True).click()
    page.goto(f"{served.root}/#/runs/{run_id}/1.2")
    expect(page.locator(".parts li")).to_have_count(2)
    page.goto(f"{served.root}/#/runs/{run_id}/1.2(2).0")
    expect(page.get_by_label("Step 2(2).0")).to_contain_text("Turn x.")
