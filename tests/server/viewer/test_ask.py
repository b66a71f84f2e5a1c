"""The page that asks, in Chromium: a question with its live plan, a price before approval, saved plans."""

import json
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from server.chat.test_saved_plans import REVIEW
from server.scene import Serve, called, team
from server.viewer.conftest import in_halves
from server.viewer.test_live import ROWS
from servers.chat_server import Call, ChatServer, Reply
from servers.podium_server import Served

pytestmark = pytest.mark.long

MANY = REVIEW.replace("[[steps]]", '[parameters.parts]\ntype = ["string"]\ndefault = []\n[[steps]]')


def test_a_question_and_its_live_plan(served: Served, upstream: ChatServer, page: Page) -> None:
    may_end = threading.Event()

    def reply(call: Call) -> Reply:
        if call.body["model"] == "planner":
            return in_halves(ROWS, '{"worker": 1, "subtask": "Write.", "access": [0, 1]}\n', may_end)
        return team(call)

    upstream.reply = reply
    page.goto(served.root)
    page.get_by_role("link", name="Ask", exact=True).click()
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
    page.get_by_label("Question").fill("Why is the sky blue?")
    page.get_by_text("Options").click()
    page.get_by_label("At most").fill("0.5")
    page.get_by_label("Labels").fill("eu, public")
    page.get_by_label("Question").press("Control+Enter")
    expect(page.locator(".plan-text")).to_contain_text("Find doubts")
    expect(page.locator(".node")).to_have_count(2)
    may_end.set()
    expect(page.locator(".head .badge")).to_have_text("ok")
    [run] = served.http().get("/runs").json()["data"]
    assert (run["question"], run["labels"]) == ("Why is the sky blue?", ["eu", "public"])
    assert page.url.endswith(f"#/ask?run={run['id']}")
    page.reload()
    expect(page.get_by_label("Question")).to_have_value("Why is the sky blue?")
    page.get_by_label("Question").fill("Why is the sea blue?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("heading", name="Why is the sea blue?")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Why is the sky blue?")).to_be_visible()


def test_the_price_comes_before_the_approval(served: Served, upstream: ChatServer, page: Page) -> None:
    page.goto(f"{served.root}/#/ask")
    page.get_by_label("Question").fill("Why?")
    page.get_by_label("First show me the plan and its price").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    price = page.locator(".price")
    expect(price).to_contain_text("Expected: $")
    expect(price).to_contain_text("Assumed for one, two, which have few recorded calls.")
    before = price.inner_text()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Worker of step 0").select_option("two")
    expect(price).not_to_have_text(before)
    assert called(upstream) == ["planner"]
    page.get_by_role("button", name="Approve the changed plan").click()
    expect(page.locator(".head .badge")).to_have_text("ok")
    assert called(upstream) == ["planner", "two", "two"]
    assert served.http().get("/runs").json()["data"][0]["status"] == "ok"


def test_the_form_of_a_saved_plan(serve: Serve, upstream: ChatServer, tmp_path: Path, page: Page) -> None:
    (tmp_path / "review.toml").write_text(MANY, encoding="utf-8")
    served = serve(models='[plans]\nreview = "review.toml"')
    page.goto(f"{served.root}/#/ask")
    page.get_by_label("Model").select_option("plan/review")
    expect(page.get_by_text("Reviews a text.")).to_be_visible()
    run = page.get_by_role("button", name="Run the plan")
    expect(run).to_be_disabled()
    page.get_by_label("text", exact=True).fill("a page")
    page.get_by_label("style").select_option("long")
    page.get_by_label("parts").fill("one\n two \n")
    run.click()
    expect(page.locator(".head .badge")).to_have_text("ok")
    client = served.http()
    [made] = client.get("/runs").json()["data"]
    args = {"text": "a page", "style": "long", "parts": ["one", "two"]}
    assert json.loads(client.get(f"/runs/{made['id']}").json()["query"][-1]["content"]) == args
    assert "A long review of a page" in str(upstream.calls[-1].body["messages"])
    page.reload()
    expect(page.get_by_label("style")).to_have_value("long")
    page.get_by_role("button", name="Edit and run…").click()
    form = page.get_by_label("Edit and run", exact=True)
    form.get_by_label("style").select_option("short")
    form.get_by_role("button", name="Run as a new run").click()
    expect(page.get_by_role("link", name="replay of")).to_be_visible()
    expect(page.locator(".head .badge")).to_have_text("ok")
    assert "A short review of a page" in str(upstream.calls[-1].body["messages"])
