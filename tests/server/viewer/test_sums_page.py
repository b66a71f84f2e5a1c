"""The charts in Chromium, and the filters of the list in the address."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect
from server.viewer.conftest import STEPS, ended, start
from servers.podium_server import Served

pytestmark = pytest.mark.long


def test_the_charts(served: Served, page: Page) -> None:
    client = served.http()
    page.goto(f"{served.root}/#/sums")
    expect(page.get_by_text("No run began in this time.")).to_be_visible()
    runs = [ended(client, start(client, plan={"steps": STEPS})) for _ in range(2)]
    page.goto(f"{served.root}/#/sums?days=7")
    bars = page.get_by_role("list", name="Cost by day")
    expect(bars.get_by_role("link")).to_have_count(7)
    today = datetime.now(UTC).date().isoformat()
    told = re.compile(rf"^{today}: \$0\.00\d+ in 2 runs, two \$0\.00\d+, one \$0\.000\d+$")
    day = bars.get_by_role("link", name=told)
    expect(day.locator("span")).to_have_count(2)
    row = page.get_by_label("Cost and time by worker").get_by_role("row").filter(has_text="two")
    cost = sum(run["cost_by_worker"]["two"] for run in runs)
    expect(row.get_by_role("cell").nth(0)).to_have_text("2")
    expect(row.get_by_role("cell").nth(1)).to_have_text(f"${cost:.2g}")
    expect(row.get_by_role("cell").nth(3)).to_have_text(re.compile(r"^\d.* m?s$"))
    page.get_by_label("Period").select_option("30 days")
    expect(bars.get_by_role("link")).to_have_count(30)
    page.get_by_label("Model").select_option("mini")
    expect(page.get_by_text("No run began in this time.")).to_be_visible()
    assert page.url.endswith("#/sums?days=30&model=mini")
    page.get_by_label("Model").select_option("")
    bars.get_by_role("link", name=re.compile(f"^{today}")).click()
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name=f"Remove the filter day {today}").click()
    expect(page.get_by_role("row")).to_have_count(2)
