"""The graph of a plan in Chromium: where steps and lines are drawn, how large, and what a box shows."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve
from server.viewer.conftest import ended, start

pytestmark = pytest.mark.long

LIMITS = "[limits]\nsteps = 100\n"

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
    steps = [
        {
            "worker": "one",
            "subtask": f"Part {at} of a long plan.",
            "access": [at - 4, at - 3] if at > 3 else [],
        }
        for at in range(30)
    ]
    steps[20]["access"] = []
    steps[29]["access"] = [7, 20, *range(25, 29)]
    return steps


def test_a_large_plan(serve: Serve, page: Page) -> None:
    served = serve(models=LIMITS)
    client = served.http()
    run_id = start(client, plan={"steps": thirty()})
    ended(client, run_id)
    page.goto(f"{served.root}/#/runs/{run_id}")
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
