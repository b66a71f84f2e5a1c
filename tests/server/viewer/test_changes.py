"""The viewer in Chromium while other people and programs change what it shows."""

import sqlite3

import pytest
from playwright.sync_api import Page, expect
from server.scene import Serve
from server.viewer.conftest import STEPS, ended, start
from servers.podium_server import Served

from podium.aio import run_sync
from podium_server.keys import KeyStore

pytestmark = pytest.mark.long

APPROVAL = '\n[policy]\napprove = "later"\n'


def test_a_plan_that_is_refused_elsewhere(serve: Serve, page: Page) -> None:
    """The page of a run that waits shows the decision of another person, without an action."""
    served = serve(models=APPROVAL)
    client = served.http()
    run_id = start(client)
    ended(client, run_id)
    page.goto(f"{served.root}/#/runs/{run_id}")
    expect(page.get_by_label("Approval")).to_be_visible()
    client.post(f"/runs/{run_id}/refuse", json={"why": "It costs too much."}).raise_for_status()
    expect(page.get_by_text("The plan was refused by local: It costs too much.")).to_be_visible()
    expect(page.locator(".head .badge")).to_have_text("failed")
    expect(page.get_by_label("Approval")).to_have_count(0)


def test_a_run_whose_process_died(served: Served, page: Page) -> None:
    """It is stopped on its page, too, says so, and its clock stands still; one that was given up says so."""
    client = served.http()
    run_id = start(client, plan={"steps": STEPS[:1]})
    ended(client, run_id)
    journal = served.app.journal
    assert journal is not None
    with sqlite3.connect(str(journal.url).removeprefix("sqlite:///")) as database:
        kept = "(SELECT max(number) - 2 FROM podium_events)"
        database.execute(f"DELETE FROM podium_events WHERE number > {kept}")  # noqa: S608
        database.execute("UPDATE podium_runs SET state = 'running'")
    page.goto(f"{served.root}/#/runs/{run_id}")
    expect(page.locator(".head .badge")).to_have_text("stopped")
    expect(page.get_by_label("Step 0, one, pending")).to_be_visible()
    expect(page.get_by_text("Its process died, or lost its connection to the journal.")).to_be_visible()
    with sqlite3.connect(str(journal.url).removeprefix("sqlite:///")) as database:
        database.execute("UPDATE podium_runs SET state = 'dead', recoveries = 5")
    page.reload()
    expect(page.locator(".head .badge")).to_have_text("dead")
    expect(page.get_by_text("The run was given up, because its process died 5 times.")).to_be_visible()
    page.get_by_role("button", name="Resume…").click()
    page.get_by_label("Resume", exact=True).get_by_role("button", name="Resume").click()
    expect(page.locator(".head .badge")).to_have_text("ok")


def test_a_session_that_ends(keyed: Served, page: Page, faults: list[str]) -> None:
    """After the key was revoked, the page asks for another key, and then shows the same place."""
    key, other = keyed.key(day_cost=2.0, role="see"), keyed.key(role="see")
    client = keyed.http(key)
    run_id = start(client, plan={"steps": STEPS})
    ended(client, run_id)
    page.goto(f"{keyed.root}/#/runs/{run_id}")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Why is the sky blue?")).to_be_visible()
    expect(page.get_by_role("meter", name="budget")).to_be_visible()
    assert keyed.app.journal is not None
    store = KeyStore(keyed.app.journal.url)
    run_sync(lambda: store.revoke("key 0"))
    expect(page.get_by_text("The session has ended.")).to_be_visible()
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)
    expect(page.get_by_role("meter", name="budget")).to_have_count(0)
    faults.clear()
    page.get_by_label("API key").fill(other)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Why is the sky blue?")).to_be_visible()
