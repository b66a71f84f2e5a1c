"""The pages of the viewer in a window as narrow as a telephone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from server.chat.test_completions import team
from server.runs.conftest import Http
from server.viewer.conftest import STEPS, ended, start
from servers.chat_server import ChatServer
from servers.podium_server import Served

pytestmark = pytest.mark.long

WIDTHS = (
    """() => [document.documentElement, document.querySelector('main')].map((each) => each.scrollWidth)"""
)


@pytest.mark.parametrize("keyed", ['\n[policy]\napprove = "later"\n'], indirect=True)
def test_nothing_is_wider_than_the_window(
    keyed: Served, upstream: ChatServer, new_key: Callable[..., str], http: Http, page: Page
) -> None:
    """No page overflows at 360 pixels, also with a session with budgets and while a plan is changed."""
    upstream.reply = team
    key = new_key(day_cost=2.0, month_cost=5.0)
    client = http(keyed, key)
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
        (f"runs/{ids[2]}", page.get_by_role("heading", name="The plan waits for an approval")),
    ):
        page.goto(f"{keyed.root}/#/{place}")
        expect(shown).to_be_visible()
        assert page.evaluate(WIDTHS) == [360, 360], place
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Subtask of step 2")).to_be_visible()
    assert page.evaluate(WIDTHS) == [360, 360]
