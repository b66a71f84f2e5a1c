"""Plans in Chromium: maps, loops and skipped steps; where steps and lines are drawn, and how large."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve
from server.viewer.conftest import opened
from servers.chat_server import Call, ChatServer, Reply, says

pytestmark = pytest.mark.long

ITEMS = 230
LIST = {"worker": "one", "subtask": "List.", "access": [], "returns": {"items": [{"name": "string"}]}}
TURN: dict[str, Any] = {"worker": "two", "subtask": "Turn {{previous.note}}.", "access": ["previous"]}
TURN["returns"] = {"done": "boolean", "note": "string"}
STEPS: list[dict[str, Any]] = [
    LIST,
    {"worker": "one", "subtask": "Read {{item.name}}.", "access": [], "each": "{{0.items}}"},
    {"steps": [TURN], "until": {"ref": "{{0.done}}", "is": True}, "most": 5, "access": []},
    {"worker": "two", "subtask": "Never.", "access": [], "when": {"ref": "{{0.items.0.name}}", "is": "z"}},
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
    run_id = opened(served, page, plan={"steps": STEPS})
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


# The boxes and the lines of the graph, in pixels of the window.
DRAWN = """() => {
  const boxOf = (each) => each.querySelector('.box').getBoundingClientRect();
  const boxes = [...document.querySelectorAll('.node')].map(boxOf);
  const crossed = [];
  const lines = [...document.querySelectorAll('path.edge')].map((path) => {
    const toWindow = path.getScreenCTM();
    const length = path.getTotalLength();
    const points = Array.from({length: 101}, (_, at) =>
      path.getPointAtLength(length * at / 100).matrixTransform(toWindow));
    for (const {x, y} of points)
      boxes.forEach((box, at) => {
        if (x > box.left + 2 && x < box.right - 2 && y > box.top + 2 && y < box.bottom - 2) crossed.push(at);
      });
    return [points[0].x, points[0].y, points[100].x, points[100].y];
  });
  return {crossed, lines, boxes: boxes.map((box) => [box.left, box.top, box.right, box.bottom])};
}"""
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll('.inside')].map((each) =>
  parseFloat(getComputedStyle(each).fontSize) * each.getBoundingClientRect().width / each.offsetWidth))"""


def thirty() -> list[dict[str, Any]]:
    """Return the steps of a wide plan; step 20 sees none of the others."""
    others = {0: [], 1: [], 2: [], 3: [], 20: [], 29: [7, 20, *range(25, 29)]}
    access = [others.get(at, [at - 4, at - 3]) for at in range(30)]
    return [{"worker": "one", "subtask": f"Part {at}.", "access": seen} for at, seen in enumerate(access)]


def test_a_large_plan(serve: Serve, page: Page) -> None:
    served = serve(models="[limits]\nsteps = 100\n")
    run_id = opened(served, page, plan={"steps": thirty()})
    expect(page.locator(".node")).to_have_count(30)
    assert page.evaluate(SMALLEST_TEXT) >= 10
    expect(page.get_by_label("Step 0, one, ok")).to_be_in_viewport()
    expect(page.get_by_label("Step 29, one, ok")).not_to_be_in_viewport()
    drawn = page.evaluate(DRAWN)
    assert drawn["crossed"] == []
    lefts = [round(box[0]) for box in drawn["boxes"]]
    assert [at for at, left in enumerate(lefts) if left == min(lefts)] == [0, 1, 2, 3, 20]
    sides = [(box[0], box[2], (box[1] + box[3]) / 2) for box in drawn["boxes"]]
    for x, y, end_x, end_y in drawn["lines"]:
        assert any(abs(x - right) <= 1 and abs(y - middle) <= 1 for _, right, middle in sides)
        assert any(abs(end_x - left) <= 1 and abs(end_y - middle) <= 1 for left, _, middle in sides)
    page.goto(f"{served.root}/#/runs/{run_id}/1.29")
    expect(page.get_by_label("Step 29, one, ok")).to_be_in_viewport()
    page.get_by_role("button", name="Fit").click()
    expect(page.locator(".number-far").last).to_be_visible()
    expect(page.get_by_label("Step 0, one, ok")).to_be_in_viewport()
    assert page.locator(".window").evaluate("each => each.scrollWidth <= each.clientWidth")
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto(f"{served.root}/#/runs/{run_id}")
    expect(page.get_by_label("Step 29, one, ok")).to_be_attached()
    tops = [round(box[1]) for box in page.evaluate(DRAWN)["boxes"]]
    assert [at for at, top in enumerate(tops) if top == min(tops)] == [0, 1, 2, 3, 20]
