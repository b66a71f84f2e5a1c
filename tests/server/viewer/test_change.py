"""A person works with runs in Chromium: cancels, continues, repeats, changes and deletes them."""

import re

import pytest
from playwright.sync_api import Page, expect
from server.scene import called, ended, stalled, team
from server.viewer.conftest import STEPS, opened, start
from servers.chat_server import ChatServer
from servers.podium_server import Served

from podium.aio import run_sync
from podium_server.keys import KeyStore

pytestmark = pytest.mark.long


def calls(upstream: ChatServer) -> list[str]:
    """Return the models that were called since the last time."""
    made = called(upstream)
    upstream.calls.clear()
    return made


def test_a_run_is_cancelled_and_resumed(served: Served, upstream: ChatServer, page: Page) -> None:
    upstream.reply = stalled
    run_id = start(served.http(), plan={"steps": STEPS})
    page.goto(f"{served.root}/#/runs/{run_id}")
    expect(page.get_by_label("Step 2, two, running")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".head .badge")).to_have_text("stopped")
    expect(page.locator(".bad.banner")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    upstream.reply = team
    calls(upstream)
    page.get_by_role("button", name="Resume…").click()
    form = page.get_by_label("Resume", exact=True)
    kept = re.compile(r"1 recorded result \(\$\d.*\) is kept; 1 call is left")
    expect(form.get_by_text(kept)).to_be_visible()
    form.get_by_role("button", name="Resume").click()
    expect(page.locator(".head .badge")).to_have_text("ok")
    expect(form).to_have_count(0)
    assert calls(upstream) == ["two"]


def test_a_run_is_resumed_with_a_higher_limit(served: Served, page: Page, faults: list[str]) -> None:
    opened(served, page, limits={"calls": 2})
    expect(page.locator(".bad.banner")).to_contain_text("raise Limits.calls for more")
    expect(page.locator(".reasons a").first).to_have_text("Step 0")
    page.get_by_role("button", name="Resume…").click()
    form = page.get_by_label("Resume", exact=True)
    expect(form.get_by_label("calls")).to_have_attribute("placeholder", "now 2")
    form.get_by_label("calls").fill("0.5")
    form.get_by_role("button", name="Resume").click()
    expect(form.get_by_role("alert")).to_contain_text("calls")
    faults.clear()
    form.get_by_label("calls").fill("5")
    form.get_by_role("button", name="Resume").click()
    expect(page.locator(".head .badge")).to_have_text("ok")


def test_a_run_is_edited(served: Served, upstream: ChatServer, page: Page, faults: list[str]) -> None:
    run_id = opened(served, page, plan={"steps": STEPS})
    calls(upstream)
    page.get_by_role("button", name="Edit and run…").click()
    form = page.get_by_label("Edit and run", exact=True)
    form.get_by_label("Steps that step 2 sees").fill("7")
    expect(form.get_by_text("There is no price")).to_contain_text("step 2")
    faults.clear()
    form.get_by_label("Steps that step 2 sees").fill("0")
    form.get_by_label("Subtask of step 2").fill("Write a poem.")
    expect(form.get_by_text("1 call is left")).to_be_visible()
    assert calls(upstream) == []
    form.get_by_role("button", name="Run as a new run").click()
    expect(page.get_by_role("link", name=f"replay of {run_id[:12]}")).to_be_visible()
    expect(page.locator(".head .badge")).to_have_text("ok")
    assert calls(upstream) == ["two"]
    page.get_by_role("button", name="Edit and run…").click()
    form.get_by_role("button", name="Edit as JSON").click()
    text = form.get_by_label("Steps as JSON")
    text.fill("[")
    expect(form.get_by_role("alert")).to_contain_text("not a list of steps")
    expect(form.get_by_role("button", name="Change this run")).to_be_disabled()
    text.fill('[{"worker": "two", "subtask": "Write one word.", "access": []}]')
    form.get_by_role("button", name="Change this run").click()
    expect(page.get_by_label("Step 0, two, ok")).to_be_visible()
    expect(page.locator(".node")).to_have_count(1)
    expect(page.locator(".head .badge")).to_have_text("ok")
    assert calls(upstream) == ["two"]


def test_a_run_is_deleted(served: Served, page: Page) -> None:
    """After a question; the page goes back to the list with its filters."""
    client = served.http()
    ids = [start(client, query=query) for query in ("An apple?", "A pear?")]
    for run_id in ids:
        ended(client, run_id)
    page.goto(f"{served.root}/#/?search=pear")
    page.get_by_role("link", name="A pear?").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("heading", name="Delete the run?")).to_have_count(0)
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("No run fits the filters.")).to_be_visible()
    assert page.url.endswith("#/?search=pear")
    assert [each["id"] for each in client.get("/runs").json()["data"]] == ids[:1]


def test_sessions_of_keys(keyed: Served, page: Page, faults: list[str]) -> None:
    """A key that is wrong, one that is revoked while it is used, and one that logs out."""
    key, other = keyed.key(day_cost=2.0, role="see"), keyed.key()
    for each in (key, other):
        client = keyed.http(each)
        ended(client, start(client, query=f"For {each == key}?"))
    page.goto(keyed.root)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert faults == []
    for text in ("wrong", key):
        page.get_by_label("API key").fill(text)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_count(int(text == "wrong"))
    faults.clear()
    page.get_by_role("link", name="For True?").click()
    expect(page.get_by_role("meter", name="budget")).to_be_visible()
    assert keyed.app.journal is not None
    store = KeyStore(keyed.app.journal.url)
    run_sync(lambda: store.revoke("key 0"))
    expect(page.get_by_text("The session has ended.")).to_be_visible()
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)
    expect(page.get_by_role("meter", name="budget")).to_have_count(0)
    faults.clear()
    page.goto(f"{keyed.root}/#/")
    page.get_by_label("API key").fill(other)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("row")).to_have_count(1)
    page.reload()
    expect(page.get_by_role("link", name="For False?")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
