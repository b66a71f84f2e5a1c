"""The pages of the viewer in a window as narrow as a telephone."""

import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve
from server.viewer.conftest import STEPS, ended, start

pytestmark = pytest.mark.long

WIDTHS = (
    """() => [document.documentElement, document.querySelector('main')].map((each) => each.scrollWidth)"""
)


def test_nothing_is_wider_than_the_window(serve: Serve, page: Page) -> None:
    """No page overflows at 360 pixels, also with a session with budgets and while a plan is changed."""
    keyed = serve(keys=True, models='[policy]\napprove = "later"\n')
    key = keyed.key(day_cost=2.0, month_cost=5.0)
    client = keyed.http(key)
    ids = [start(client, plan={"steps": STEPS}) for _ in range(3)]
    for run_id in ids:
        ended(client, run_id)
    for run_id in ids[:2]:
        client.post(f"/runs/{run_id}/approve", json={}).raise_for_status()
        ended(client, run_id)
    page.set_viewport_size({"width": 360, "height": 700})
    page.goto(keyed.root)
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.evaluate(WIDTHS) == [360, 360]
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("row")).to_have_count(3)
    expect(page.get_by_text("month")).to_be_visible()
    heading = page.get_by_role("heading", name="Runs").bounding_box()
    assert heading is not None
    assert heading["height"] < heading["width"]
    expect(page.get_by_label("Status")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Log out")).to_be_in_viewport(ratio=1)
    assert page.evaluate(WIDTHS) == [360, 360]
    for place, shown in (
        (f"runs/{ids[0]}/1.2", page.get_by_label("Step 2", exact=True)),
        (f"compare/{ids[0]}/{ids[1]}", page.get_by_role("heading", name="Answers")),
        ("sums", page.get_by_role("heading", name="Cost by day")),
        (f"ask?run={ids[0]}", page.get_by_label("Plan of round 1")),
        (f"runs/{ids[2]}", page.get_by_role("heading", name="The plan waits for an approval")),
    ):
        page.goto(f"{keyed.root}/#/{place}")
        expect(shown).to_be_visible()
        assert page.evaluate(WIDTHS) == [360, 360], place
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Subtask of step 2")).to_be_visible()
    assert page.evaluate(WIDTHS) == [360, 360]
